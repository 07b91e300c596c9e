"""Containers that judge runs: wiring only, no rule and no logic."""
