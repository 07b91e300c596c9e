"""A step: its events, where it ends, what is captured."""
