"""A step: its events, its end, and the data captured of it."""
