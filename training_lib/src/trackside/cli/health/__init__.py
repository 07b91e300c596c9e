"""The condition of an installation and of a run, for `trackside doctor`."""
