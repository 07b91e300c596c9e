"""The adapter of XGBoost; importing it imports xgboost."""

from __future__ import annotations

from trackside.adapters.xgboost.adapter import XGBoostAdapter
from trackside.frameworks.shared import in_charge


def attach() -> None:
    """Switch capture on if the environment names a run. Called once xgboost has been imported."""
    in_charge.attach_new(XGBoostAdapter)
