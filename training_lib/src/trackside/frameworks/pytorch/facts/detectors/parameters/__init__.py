"""Detectors of facts about a parameter: `of` gets a `SeenParameter`."""
