"""Detectors of facts about an optimizer: `of` gets the optimizer."""
