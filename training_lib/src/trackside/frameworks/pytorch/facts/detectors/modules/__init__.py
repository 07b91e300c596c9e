"""Detectors of facts about a module: `of` gets the module."""
