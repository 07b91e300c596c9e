"""Causes ranked by all evidence of a run, the harm that a run shows, and the probability of an issue."""
