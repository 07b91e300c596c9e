"""Rescue: earlier moments of a training that are kept, and put back when its numbers break."""
