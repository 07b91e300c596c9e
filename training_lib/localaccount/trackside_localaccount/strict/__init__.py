"""Refusals before anything is done: requests by models and limits, templates by schemas."""
