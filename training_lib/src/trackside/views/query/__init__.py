"""Questions in SQL about many runs."""
