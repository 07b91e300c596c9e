"""Adapters of frameworks other than PyTorch and plain Python."""
