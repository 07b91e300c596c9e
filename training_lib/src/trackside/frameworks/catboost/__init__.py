"""The adapter of CatBoost; importing it imports catboost."""

from __future__ import annotations

from trackside.frameworks import in_charge
from trackside.frameworks.catboost.adapter import CatBoostAdapter


def attach() -> None:
    """Switch capture on if the environment names a run. Called once catboost has been imported."""
    in_charge.attach_new(CatBoostAdapter)
