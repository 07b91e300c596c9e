"""Facts of a run beside its steps: the program, the machine, checkpoints, damage."""
