"""The adapter of LightGBM; importing it imports lightgbm."""

from __future__ import annotations

from trackside.frameworks import in_charge
from trackside.frameworks.lightgbm.adapter import LightGBMAdapter


def attach() -> None:
    """Switch capture on if the environment names a run. Called once lightgbm has been imported."""
    in_charge.attach_new(LightGBMAdapter)
