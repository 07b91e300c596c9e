"""The saved tensors of a run: names, shapes, and statistics over steps."""
