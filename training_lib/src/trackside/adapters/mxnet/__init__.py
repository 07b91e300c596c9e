"""The adapter of MXNet's Gluon; importing it imports mxnet."""

from __future__ import annotations

from trackside.adapters.mxnet.adapter import MXNetAdapter
from trackside.frameworks.shared import in_charge


def attach() -> None:
    """Switch capture on if the environment names a run. Called once mxnet has been imported."""
    in_charge.attach_new(MXNetAdapter)
