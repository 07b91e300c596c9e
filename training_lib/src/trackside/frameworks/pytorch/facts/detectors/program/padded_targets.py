"""Targets of padding that count: cross entropy for each token of rows with padding, and no index to ignore.

The tokens that embeddings read, and the targets that `nn.CrossEntropyLoss` is called with, are compared at the calls
that are watched anyway. Padding is one token, at the ends of rows of unlike lengths and nowhere else.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import PADDED_TARGETS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.shared.detectors import watches

FEWEST = 3  # looks that agree
_MOST_LOOKS = 12
_MOST_TABLES = 3  # embeddings whose newest tokens are remembered
_MOST_TOKENS = 1 << 16  # of a batch that are looked at
_FEWEST_PLACES, _FEWEST_ROWS = 4, 4
_RARELY = 0.05  # of the other targets that are as those of padding
_FEW_LENGTHS = 2


@watches(PADDED_TARGETS)
class PaddedTargets:
    """The shares of targets that are of padding, at the newest looks."""

    kinds = (nn.Embedding, nn.CrossEntropyLoss)

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._tokens: list[weakref.ref[torch.Tensor]] = []
        self._looks = 0
        self._shares: list[float] = []
        self._found = 0.0

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note tokens, and look at the targets of a loss."""
        if self._looks >= _MOST_LOOKS or self._found:
            return
        if isinstance(module, nn.Embedding):
            tokens = args[0] if args else kwargs.get("input")
            if _are_numbers(tokens) and tokens.dim() == 2:
                self._tokens = [*self._tokens[1 - _MOST_TABLES :], weakref.ref(tokens)]
        elif type(module) is nn.CrossEntropyLoss and module.reduction != "none" and torch.is_grad_enabled():
            targets = args[1] if len(args) > 1 else kwargs.get("target")
            if _are_numbers(targets):
                self._look(module, targets)

    def changes(self) -> float:
        """Return the share that was found."""
        return self._found

    def of(self, watch: Watch) -> float:
        """Return the mean share of targets that are of padding; 0 before it is known, and for none."""
        return self._found

    def _look(self, loss: nn.CrossEntropyLoss, targets: torch.Tensor) -> None:
        found = [tokens for each in self._tokens if (tokens := each()) is not None and _fit(tokens, targets)]
        if not found:
            return
        self._looks += 1
        with torch.no_grad():
            share = _share_of_padding(found[-1], targets.detach().reshape(found[-1].shape), loss)
        self._shares = [*self._shares, share] if share else []
        if len(self._shares) >= FEWEST:
            self._found = round(sum(self._shares) / len(self._shares), 3)
            self._changed()


def _are_numbers(found: Any) -> bool:
    is_whole = isinstance(found, torch.Tensor) and found.dtype in {torch.int64, torch.int32}
    return is_whole and 0 < found.numel() <= _MOST_TOKENS and not is_in_cuda_graph(found) and has_memory(found)


def _fit(tokens: torch.Tensor, targets: torch.Tensor) -> bool:
    rows, places = tokens.shape
    is_large = rows >= _FEWEST_ROWS and places >= _FEWEST_PLACES
    return is_large and targets.numel() == tokens.numel() and targets.device == tokens.device and has_memory(tokens)


def _share_of_padding(tokens: torch.Tensor, targets: torch.Tensor, loss: nn.CrossEntropyLoss) -> float:
    """Return the share of the counted targets that are of padding; 0 where none is, or padding is not known."""
    padding = tokens[:, -1].mode().values
    ends = (tokens == padding).flip(1).cumprod(1).flip(1).bool()
    lengths = (~ends).sum(1)
    is_padded = bool(((tokens == padding) == ends).all()) and len(torch.unique(lengths)) > _FEW_LENGTHS
    if not is_padded or bool(ends.all()):
        return 0.0
    of_padding = targets[ends]
    filler = int(of_padding[0])
    others = (targets[~ends] == filler).float().mean()
    is_ignored = filler == loss.ignore_index or filler < 0
    if is_ignored or not bool((of_padding == filler).all()) or float(others) > _RARELY + 1 / tokens.shape[1]:
        return 0.0
    if loss.weight is not None and filler < len(loss.weight) and float(loss.weight[filler]) == 0:
        return 0.0
    return float(ends.sum() / (targets != loss.ignore_index).sum())
