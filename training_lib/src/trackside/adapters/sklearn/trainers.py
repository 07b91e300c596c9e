"""Frameworks that train by themselves: an estimator beside one is a part of its script, as a metric or a scaler."""

from __future__ import annotations

import sys

TRAINERS = ("torch", "tensorflow", "keras", "jax", "xgboost", "lightgbm", "catboost")


def is_beside_trainer() -> bool:
    """Return True if the process has imported a framework that trains by itself."""
    return any(name in sys.modules for name in TRAINERS)
