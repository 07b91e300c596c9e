"""Copies of tensors as arrays of our own."""
