"""Rules about the speed of a run: one rule a file. They read the machine's metrics and the seconds of steps."""
