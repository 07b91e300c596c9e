"""The rehearsal of `trackside check`: the recording of a training step, and the probes that replay it."""
