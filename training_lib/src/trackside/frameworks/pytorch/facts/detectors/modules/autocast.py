"""The precision in which layers of matrix products compute while a training uses autocast.

Seen at the calls that are watched anyway. Only layers of torch.nn itself are looked at: autocast computes them in half
precision wherever it is on, while a class of the script's own may have a reason not to.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import AUTOCAST
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.script_objects import first_parameter_of
from trackside.frameworks.shared.detectors import watches

_LAYERS = frozenset(
    {nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d}
)
_HALF = frozenset({torch.float16, torch.bfloat16})


@watches(AUTOCAST)
class AutocastLayers:
    """Layers of torch.nn that were called in training. One that was ever in half precision is "half"."""

    kinds = tuple(_LAYERS)

    def __init__(self, watch: Watch) -> None:
        self._found: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._was_on = self._is_used = False

    def of(self, module: nn.Module) -> str:
        """Return what became of a layer; "" for all in a training without autocast."""
        return self._found.get(module, "") if self._is_used else ""

    def outermost_called(self, module: nn.Module) -> None:
        """Note whether autocast is on as an outermost module is called."""
        first = first_parameter_of(module)
        self._was_on = first is not None and _is_on(first.device.type)

    def returned(self, module: nn.Module, output: Any) -> None:
        """Note the precision of a layer's output."""
        if type(module) not in _LAYERS or not isinstance(output, torch.Tensor) or not output.requires_grad:
            return
        if output.dtype in _HALF and module.weight.dtype == torch.float32:
            self._found[module], self._is_used = "half", True
            return
        is_single = output.dtype == module.weight.dtype == torch.float32
        if not is_single or "forward" in module.__dict__ or module._forward_hooks or self._found.get(module) == "half":
            return
        if _is_on(output.device.type):
            self._found[module], self._is_used = "bypassed", True
        elif not self._was_on:  # else it was switched off on the way, on purpose
            self._found.setdefault(module, "outside")


def _is_on(device: str) -> bool:
    if hasattr(torch.amp, "is_autocast_available"):
        return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled()  # before PyTorch 2.4
