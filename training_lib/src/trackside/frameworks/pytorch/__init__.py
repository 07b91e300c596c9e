"""The adapter of PyTorch; importing it imports torch."""

from __future__ import annotations

from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter

attached: PyTorchAdapter | None = None  # the capture that needs no change of the script, while it is the one in charge


def attach() -> None:
    """Switches capture on if the environment names a run; called once torch has been imported."""
    global attached  # noqa: PLW0603 - there is one of it in a process
    environment = CaptureEnvironment.read()
    if environment.run_uri:
        attached = PyTorchAdapter(environment)
        attached.install()


def give_way() -> bool:
    """Takes that capture off again, for a hook in the script is to do its work. False if it has begun, and stays."""
    global attached  # noqa: PLW0603 - as above
    if attached is None:
        return True
    if attached.has_begun:
        return False
    attached.uninstall()
    attached = None
    return True
