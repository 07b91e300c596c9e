"""The adapter of XGBoost; importing it imports xgboost."""

from __future__ import annotations

from trackside.environment import CaptureEnvironment
from trackside.frameworks import in_charge
from trackside.frameworks.xgboost.adapter import XGBoostAdapter


def attach() -> None:
    """Switch capture on if the environment names a run. Called once xgboost has been imported."""
    environment = CaptureEnvironment.read()
    if environment.run_uri and in_charge.is_free():
        adapter = XGBoostAdapter(environment)
        adapter.install()
        in_charge.attach(adapter)
