"""The probes, one a file; `registry.py` finds them by walking this package."""
