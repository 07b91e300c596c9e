"""Judges a run while it grows: each complete step, each configured rule, one verdict for one cause."""
