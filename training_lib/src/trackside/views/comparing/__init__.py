"""Runs beside one another: what differs, which is better, and whether a fault is cured."""
