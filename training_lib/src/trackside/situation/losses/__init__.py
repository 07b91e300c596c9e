"""The losses of a run: their levels, spikes, evaluations and guesses."""
