"""The saved steps of a run: found, completed, and fetched."""
