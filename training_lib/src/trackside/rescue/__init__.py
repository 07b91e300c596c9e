"""Rescue: a training goes back to an earlier moment where its numbers break, or starts again from a checkpoint."""
