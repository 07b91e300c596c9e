"""Faults planted by operators, from outside, into trainings that nobody changed."""
