"""The adapter of Keras 3; importing it imports keras."""

from __future__ import annotations

from trackside.adapters.keras.adapter import KerasAdapter
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared import in_charge


def attach() -> None:
    """Switch capture on if the environment names a run. Called once keras has been imported."""
    environment = CaptureEnvironment.read()
    if environment.run_uri and in_charge.is_free():
        adapter = KerasAdapter(environment)
        adapter.install()
        in_charge.attach(adapter)
