"""The adapter of PyTorch; importing it imports torch."""

from __future__ import annotations

from trackside.environment import CaptureEnvironment, RehearsalEnvironment, RescueEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.frameworks.shared import in_charge
from trackside.products import REHEARSAL, RESCUE, product


def attach() -> None:
    """Switch capture on if the environment names a run. Called once torch has been imported."""
    environment = CaptureEnvironment.read()
    if environment.run_uri and in_charge.is_free():
        adapter = PyTorchAdapter(environment)
        rehearsal, rescue = RehearsalEnvironment.read(), RescueEnvironment.read()
        if rescue.is_on and not rehearsal.steps:
            product(RESCUE).install_around(adapter, rescue)
        else:
            adapter.install()
        in_charge.attach(adapter)
        if rehearsal.steps:
            product(REHEARSAL).Rehearsal(environment, rehearsal, adapter).install()
