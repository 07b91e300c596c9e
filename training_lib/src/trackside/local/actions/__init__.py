"""The local twins of the actions, as `trackside run` carries them out. One file each, named as its Lambda."""
