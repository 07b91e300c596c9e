"""The adapter of LightGBM; importing it imports lightgbm."""

from __future__ import annotations

from trackside.adapters.lightgbm.adapter import LightGBMAdapter
from trackside.frameworks.shared import in_charge


def attach() -> None:
    """Switch capture on if the environment names a run. Called once lightgbm has been imported."""
    in_charge.attach_new(LightGBMAdapter)
