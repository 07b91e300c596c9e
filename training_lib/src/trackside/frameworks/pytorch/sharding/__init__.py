"""Sharded tensors and ranks."""
