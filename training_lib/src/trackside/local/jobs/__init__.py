"""The job of a scheduler that a run is part of: recognised, told of verdicts, and ended where that is permitted."""
