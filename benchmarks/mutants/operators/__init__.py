"""The operators, one file for each place of a program: batches, losses, steps, networks."""
