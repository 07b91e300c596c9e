"""Attention with a mask of keys that is upside down: it covers the tokens, and leaves the padding.

PyTorch's masks of keys are True where a place is not to be read; most other libraries' are True where it is. Masks are
compared with the tokens of the model's embeddings, at the first calls that have both.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import READS_PADDING
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.shared.detectors import watches

MOST_LOOKS = 3  # at masks, each of another call of the model
_MOST_TABLES = 3  # embeddings whose newest tokens are remembered
_FEWEST_TOKENS = 3  # different ones that a mask covers
_PLACES = {nn.TransformerEncoder: 2, nn.TransformerEncoderLayer: 2, nn.MultiheadAttention: 3}  # of the mask


@watches(READS_PADDING)
class InvertedMasks:
    """Calls of attention that read nothing but one token, the same in all rows, where others are masked."""

    kinds = (nn.Embedding, *_PLACES)

    def __init__(self, watch: Watch) -> None:
        self._tokens: list[weakref.ref[torch.Tensor]] = []
        self._counts: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self._looks = 0
        self._is_seen = False  # a mask of the open call of the model

    def outermost_called(self, module: nn.Module) -> None:
        """Begin with another call of the model."""
        self._is_seen = False

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note tokens, and look at the first mask of a call."""
        if self._looks >= MOST_LOOKS:
            return
        if isinstance(module, nn.Embedding):
            tokens = args[0] if args else kwargs.get("input")
            if isinstance(tokens, torch.Tensor) and tokens.dim() == 2 and not tokens.is_floating_point():
                self._tokens = [*self._tokens[1 - _MOST_TABLES :], weakref.ref(tokens)]
            return
        place = next((place for kind, place in _PLACES.items() if isinstance(module, kind)), None)
        if place is None or self._is_seen:
            return
        mask = args[place] if len(args) > place else kwargs.get("src_key_padding_mask", kwargs.get("key_padding_mask"))
        if isinstance(mask, torch.Tensor) and mask.dim() == 2 and not is_in_cuda_graph(mask) and has_memory(mask):
            self._is_seen = True
            self._look(module, mask)

    def _look(self, module: nn.Module, mask: torch.Tensor) -> None:
        found = [tokens for each in self._tokens if (tokens := each()) is not None and tokens.shape == mask.shape]
        if not found:
            return
        self._looks += 1
        with torch.no_grad():
            is_covered = mask if mask.dtype == torch.bool else mask < 0
            is_inverted = any(_reads_one_token(each, is_covered) for each in found if each.device == mask.device)
        self._counts[module] = self._counts.get(module, 0) + is_inverted

    def of(self, module: nn.Module) -> int:
        """Return the number of such calls of a module."""
        return self._counts.get(module, 0)


def _reads_one_token(tokens: torch.Tensor, is_covered: torch.Tensor) -> bool:
    if len(torch.unique(is_covered.sum(1))) == 1:  # padding fills rows of unlike lengths
        return False
    read, covered = torch.unique(tokens[~is_covered]), torch.unique(tokens[is_covered])
    return len(read) == 1 and len(covered) >= _FEWEST_TOKENS and not bool((covered == read).any())
