"""Layers with outputs that depend on later positions of a sequence."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn

from trackside.contracts.observations import SEES_AHEAD
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.modules.roles import role_of
from trackside.frameworks.shared.detectors import watches

_ARGUMENTS = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")


@watches(SEES_AHEAD)
class SeesAhead:
    """Recurrent layers that read a sequence backwards too, and attention that was seen to read all of its input."""

    def __init__(self, watch: Watch) -> None:
        self._unmasked: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note attention over its own input without a mask: each place of the input sees all of it."""
        if isinstance(module, nn.MultiheadAttention):
            arguments = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
            if arguments.get("query") is arguments.get("key") and arguments.get("attn_mask") is None:
                self._unmasked.add(module)

    def of(self, module: nn.Module) -> bool:
        """Return True if a module sees later positions."""
        is_both_ways = module.__dict__.get("bidirectional") is True and role_of(module).role == "recurrent"
        return is_both_ways or module in self._unmasked
