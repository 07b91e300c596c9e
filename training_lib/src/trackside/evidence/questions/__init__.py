"""The questions about a run, a file for each family. `trackside.evidence.registry` finds them by walking."""
