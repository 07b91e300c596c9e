"""The import name of the original, served by Trackside."""
