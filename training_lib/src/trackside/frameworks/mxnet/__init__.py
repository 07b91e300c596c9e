"""The adapter of MXNet's Gluon; importing it imports mxnet."""

from __future__ import annotations

from trackside.frameworks import in_charge
from trackside.frameworks.mxnet.adapter import MXNetAdapter


def attach() -> None:
    """Switch capture on if the environment names a run. Called once mxnet has been imported."""
    in_charge.attach_new(MXNetAdapter)
