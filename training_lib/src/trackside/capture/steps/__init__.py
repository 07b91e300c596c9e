"""A step: its number, its end, what is due in it, and the data that it holds."""
