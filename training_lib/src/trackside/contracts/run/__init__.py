"""The contents of a run beside its steps: names of numbers, checkpoints, the record of learning, missing captures."""
