"""A look at the weights of an optimizer where no step may come any more: numbers that are not finite, as it left them.

Steps are measured now and then. What breaks the weights in between, and stops a script that guards its loss from
stepping, would be seen at no step.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import torch

from trackside.capture.statistics.step_statistics import ARRIVAL_SECONDS, StepStatistics
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers

Counts = Mapping[tuple[str, str], float]  # by tensor and statistic


class Plan(Protocol):
    """The watched weights of an optimizer."""

    def named_weights(self) -> list[tuple[str, torch.Tensor]]:
        """Return the plain tensors of the parameters, with their names."""


class LastLook:
    """Records weights that are not finite, beside the newest step. Nothing raises.

    Args:
        record: The session's statistics.
        plans: The optimizers that the script holds, by id.
        is_late: Returns True if the value of a tensor has to travel from a device.
    """

    def __init__(
        self, record: StepStatistics, plans: MutableMapping[int, Any], is_late: Callable[[torch.Tensor], bool]
    ) -> None:
        self._record, self._is_late = record, is_late
        self._plans: MutableMapping[int, Plan] = plans

    def at_all(self) -> None:
        """Look at the weights of all optimizers."""
        for plan in [*self._plans.values()]:
            self._look(plan, waits=True)

    def forget(self, number: int) -> None:
        """Forget an optimizer that the script has let go, and look at its weights: nobody else may hold them.

        Weights on a device are left out: this may run while Python collects garbage, and must wait for nothing.
        """
        plan = self._plans.pop(number, None)
        if plan is not None and not sys.is_finalizing():
            self._look(plan, waits=False)

    def _look(self, plan: Plan, *, waits: bool) -> None:
        if not self._record.is_on:
            return
        try:
            named = [(name, weight) for name, weight in plan.named_weights() if waits or not self._is_late(weight)]
            with torch.no_grad():
                broken = broken_weights(named, DeviceNumbers(self._is_late))
            if broken:
                self._record.recorder.note(broken)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self._record.switch_off(error)


def broken_weights(named: Sequence[tuple[str, torch.Tensor]], device: DeviceNumbers) -> Counts:
    """Return norm and number of elements that are not finite of each weight that has any; none for sound weights.

    Args:
        named: Names and plain tensors of the weights.
        device: For norms that have to travel: they are waited for no longer than the end of a run waits.
    """
    readable = [(name, weight) for name, weight in named if _is_readable(weight)]
    norms = _norms([weight for _, weight in readable], device)
    found: dict[tuple[str, str], float] = {}
    for (name, weight), norm in zip(readable, norms, strict=True):
        broken = 0 if math.isfinite(norm) else weight.numel() - int(torch.isfinite(weight).sum().item())
        if broken:
            found[name, "l2"] = norm
            found[name, "nonfinite_count"] = broken
            found[name, "nan_count"] = int(torch.isnan(weight).sum().item())
    return found


def _norms(weights: Sequence[torch.Tensor], device: DeviceNumbers) -> Sequence[float]:
    """Return the L2 norm of each; zeros where they do not arrive in time."""
    if not weights:
        return ()
    norms = torch.stack([torch.linalg.vector_norm(weight).double().to(weights[0].device) for weight in weights])
    if not device.is_late(norms):
        return [float(norm) for norm in norms.tolist()]
    values = device.take_alone(norms)
    device.wait(ARRIVAL_SECONDS)
    return values.get().tolist() if values.is_here() else [0.0] * len(weights)


def _is_readable(weight: torch.Tensor) -> bool:
    """Return True for floating point numbers with memory behind them, which sharded or offloaded weights may lack."""
    if not has_memory(weight) or not weight.is_floating_point():
        return False
    return weight.numel() > 0 and not is_in_cuda_graph(weight)
