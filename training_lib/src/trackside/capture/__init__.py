"""The life of a captured run: steps, schedules, statistics, files and the thread that writes. No framework."""
