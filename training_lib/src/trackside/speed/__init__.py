"""Speed: what measures where the time of a training goes, and what judges it."""
