"""The adapter of XGBoost; importing it imports xgboost."""

from __future__ import annotations

from trackside.frameworks import in_charge
from trackside.frameworks.xgboost.adapter import XGBoostAdapter


def attach() -> None:
    """Switch capture on if the environment names a run. Called once xgboost has been imported."""
    in_charge.attach_new(XGBoostAdapter)
