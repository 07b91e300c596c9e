"""The time of a step by phase, and the DataLoaders and lines that it is spent in."""
