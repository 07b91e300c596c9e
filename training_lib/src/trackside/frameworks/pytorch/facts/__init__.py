"""What the program is made of."""
