"""Detectors: each sees one observation of a loss in its graph. The registry finds them by walking this folder."""
