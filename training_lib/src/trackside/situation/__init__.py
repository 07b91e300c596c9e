"""The situation of a run, read from a window for all rules: its phases, aims, losses, guesses and updates."""
