"""Bytes to tensors and back, in smdebug's formats and in those of our own."""
