"""The model's evaluation mode, and the steps of the mode EVAL."""
