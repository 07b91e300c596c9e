"""Destinations of verdicts."""
