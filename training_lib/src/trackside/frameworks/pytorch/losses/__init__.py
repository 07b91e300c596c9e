"""What a loss is called, what it is made of, and what it was computed from."""
