"""The thread that writes a run, its files, and where a restarted run goes on."""
