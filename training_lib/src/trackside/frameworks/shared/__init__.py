"""The shared parts of adapters: their protocol, rounds, selections, replaced functions, profiles of windows."""
