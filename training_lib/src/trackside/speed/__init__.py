"""Speed: what judges where the time of a training goes, from what the core has measured."""
