"""Runs in and out: to the formats of other tools, and from the folders of the original smdebug."""
