"""Begin products from the core: by name, where a run asks for them. No room of the core imports a product."""

from __future__ import annotations

import importlib
from typing import Any

REHEARSAL = "trackside.rehearsal.rehearsal"  # in the training's process, for `trackside check`
RESCUE = "trackside.rescue.rescue"  # in the training's process, for `--rescue`
RESTARTS = "trackside.rescue.restarting.beginning"  # by `trackside run`, for `--rescue restart`
MACHINE_SAMPLER = "trackside.speed.machine.sampler_process"  # beside a training, by `trackside run`
MACHINE_PART = "trackside.speed.machine.machine_part"  # the same, by the training, where nobody else does
PYTORCH_TIMING = "trackside.speed.pytorch.timing"  # in each training by PyTorch
RUN_SPEED = "trackside.speed.run_speed"  # once a run is judged
SAGEMAKERS_REQUESTS = "trackside.documents.requests"  # where a file or a container has rules in SageMaker's terms
RULES = ("trackside.speed.rules", "trackside.language.rules", "trackside.presets.rules")  # rooms of further rules


def product(name: str) -> Any:
    """Return the module of a product that the core begins.

    Args:
        name: One of the names above.
    """
    return importlib.import_module(name)
