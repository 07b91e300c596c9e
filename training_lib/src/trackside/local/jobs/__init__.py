"""The job of a scheduler that a run is part of: its recognition, verdicts in it, and its end."""
