"""A look at the weights of an optimizer where no step may come any more: numbers that are not finite, as it left them.

Steps are measured now and then. What breaks the weights in between, and stops a script that guards its loss from
stepping, would be seen at no step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from trackside.capture.step_statistics import ARRIVAL_SECONDS
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers

Counts = Mapping[tuple[str, str], float]  # by tensor and statistic


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
    if weight.device.type == "meta" or not weight.is_floating_point() or is_in_cuda_graph(weight):
        return False
    last = weight.storage_offset() + sum((n - 1) * s for n, s in zip(weight.shape, weight.stride(), strict=True))
    return weight.numel() > 0 and weight.untyped_storage().nbytes() >= (last + 1) * weight.element_size()
