"""Rules about how the training program is written: what it forgets, freezes or feeds wrongly."""
