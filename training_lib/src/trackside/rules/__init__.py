"""Rules: each asks one question about a run, purely, by the moments that a window shows."""
