"""Decoders that are given their own targets: the tokens read last are those that they are to write.

A decoder reads the tokens before each of its targets. Where nobody shifts them, it reads each target at its own place,
which it has only to copy, mask or no mask. A program that reconstructs what it reads embeds its tokens first; here
others are embedded before them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import GIVEN_TARGETS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.shared.detectors import watches

ENOUGH = 3  # looks
_MOST_LOOKS = 12
_MOST_TOKENS = 1 << 16
_FEWEST_TOKENS = 32
_FEWEST_PLACES = 3


@watches(GIVEN_TARGETS)
class GivenTargets:
    """The tokens of the open call of a model, and the looks that found them among the targets."""

    kinds = (nn.Embedding, nn.CrossEntropyLoss)

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._tokens: list[torch.Tensor] = []  # copies, of the open step
        self._looks = self._count = 0

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note tokens, and compare the newest with the targets of a loss."""
        if self._looks >= _MOST_LOOKS or self._count >= ENOUGH or not torch.is_grad_enabled():
            return
        if isinstance(module, nn.Embedding):
            tokens = args[0] if args else kwargs.get("input")
            if _are_tokens(tokens) and tokens.dim() == 2 and tokens.shape[1] >= _FEWEST_PLACES:
                self._tokens = [*self._tokens[-1:], tokens.detach().clone()]
        elif type(module) is nn.CrossEntropyLoss:
            targets = args[1] if len(args) > 1 else kwargs.get("target")
            before, self._tokens = self._tokens, []
            if len(before) == 2 and _are_tokens(targets):
                self._look(before[0], before[1], targets)

    def changes(self) -> int:
        """Return 1 once it was found."""
        return int(self._count >= ENOUGH)

    def of(self, watch: Watch) -> int:
        """Return the looks in a row that found them, once they are enough; else 0."""
        return self._count if self._count >= ENOUGH else 0

    def _look(self, source: torch.Tensor, tokens: torch.Tensor, targets: torch.Tensor) -> None:
        if targets.numel() != tokens.numel() or targets.device != tokens.device or source.device != tokens.device:
            return
        self._looks += 1
        is_given = torch.equal(tokens.reshape(-1), targets.detach().reshape(-1))
        is_other = source.shape != tokens.shape or not torch.equal(source, tokens)
        has_several = bool((tokens != tokens[0, 0]).any())
        self._count = self._count + 1 if is_given and is_other and has_several else 0
        if self._count == ENOUGH:
            self._changed()


def _are_tokens(found: Any) -> bool:
    is_whole = isinstance(found, torch.Tensor) and found.dtype == torch.int64
    return (
        is_whole
        and _FEWEST_TOKENS <= found.numel() <= _MOST_TOKENS
        and not is_in_cuda_graph(found)
        and has_memory(found)
    )
