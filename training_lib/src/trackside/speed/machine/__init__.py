"""Samples of a machine: its processors, accelerators, memory, disks and network, by a process beside the training."""
