"""The facts about a program that trains with PyTorch."""

from __future__ import annotations

import torch

from trackside.contracts.model_facts import ProgramFacts
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.sharding.ranks import rank_of_this_process


def program_facts(environment: CaptureEnvironment, *, has_grad_scaler: bool, is_compiled: bool) -> ProgramFacts:
    """Return the facts about this process, with those that other sources have seen."""
    return ProgramFacts(
        framework="pytorch",
        framework_version=torch.__version__.partition("+")[0],
        has_grad_scaler=has_grad_scaler,
        world_size=rank_of_this_process(environment).of,
        is_compiled=is_compiled,
    )
