"""The recorded statistics of a run, read as they grow."""
