"""Modules of another team."""
