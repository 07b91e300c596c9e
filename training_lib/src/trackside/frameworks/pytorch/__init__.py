"""The adapter of PyTorch; importing it imports torch."""

from __future__ import annotations

from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.capture import PyTorchCapture


def attach() -> None:
    """Switches capture on if the environment names a run; called once torch has been imported."""
    environment = CaptureEnvironment.read()
    if environment.run_uri:
        PyTorchCapture(environment).install()
