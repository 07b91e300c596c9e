"""The model's eval mode, and the steps of the mode EVAL."""
