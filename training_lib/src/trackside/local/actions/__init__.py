"""The local twins of the actions: what `trackside run` does on one machine. One file each, named as its Lambda."""
