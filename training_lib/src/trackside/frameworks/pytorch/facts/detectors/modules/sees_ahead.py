"""Layers with outputs that depend on later positions of a sequence."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import SEES_AHEAD
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.modules.roles import role_of
from trackside.frameworks.shared.detectors import watches

_ARGUMENTS = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")


@watches(SEES_AHEAD)
class SeesAhead:
    """Recurrent layers that read a sequence backwards too, convolutions, and attention that reads all of its input."""

    kinds = (nn.MultiheadAttention,)

    def __init__(self, watch: Watch) -> None:
        self._unmasked: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note attention over its own input without a mask: each place of the input sees all of it."""
        arguments = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
        if arguments.get("query") is arguments.get("key") and arguments.get("attn_mask") is None:
            self._unmasked.add(module)

    def of(self, module: nn.Module) -> bool:
        """Return True if a module sees later positions."""
        is_both_ways = module.__dict__.get("bidirectional") is True and role_of(module).role == "recurrent"
        return is_both_ways or module in self._unmasked or _is_padded_on_both_sides(module)


def _is_padded_on_both_sides(module: nn.Module) -> bool:
    """Return True for a convolution that keeps the length of its input and weighs what follows."""
    if type(module) is not nn.Conv1d or module.stride != (1,):  # a class of its own may cut or mask
        return False
    reach = module.dilation[0] * (module.kernel_size[0] - 1)
    is_even = module.padding == "same" or (module.padding != "valid" and 2 * int(module.padding[0]) == reach)
    if not reach or not is_even or not has_memory(module.weight) or not module.weight.is_cpu:
        return False
    with torch.no_grad():
        return bool(module.weight[..., module.kernel_size[0] // 2 + 1 :].any())
