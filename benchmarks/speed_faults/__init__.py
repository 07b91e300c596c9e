"""Planted faults of speed and their right twins, trained under `trackside run` and judged by rule and by profile."""
