"""Detectors of facts about the whole program: `of` gets the `Watch`."""
