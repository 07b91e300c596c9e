"""The adapter of CatBoost; importing it imports catboost."""

from __future__ import annotations

from trackside.adapters.catboost.adapter import CatBoostAdapter
from trackside.frameworks.shared import in_charge


def attach() -> None:
    """Switch capture on if the environment names a run. Called once catboost has been imported."""
    in_charge.attach_new(CatBoostAdapter)
