"""Vectors that a model adds to the rows of a batch by their place in it: positions along the axis of the batch.

`x + table[: x.size(0)]` is right where sequences come first, and fits where the batch does. A few numbers of what one
module is given are compared with those of what the module before it was given, or gave: a difference that is the same
at all places of a sequence and another in each row, at several calls with other rows, belongs to the row's place. A
condition that each row brings along is another one at the next call. The first axis is known to be that of the batch by
`batch_first`, or by the number of rows of the DataLoader's batch.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch
from torch import nn

from trackside.contracts.observations import ROWS_BY_PLACE
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.pytorch.ground.structures import flatten
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.shared.detectors import watches

FEWEST = 3  # calls, each with other rows
_MOST_CALLS = 8  # of models that are looked at
_MOST_PAIRS = 64  # of tensors that are compared in one call
_ROWS, _PLACES, _NUMBERS = 8, 4, 16  # of a tensor that are read
_ROUNDING = 1e-4  # of the largest number
_ALIKE = 0.9  # cosine of the differences of two calls
_SINGLE = {torch.float32, torch.float64}


class _Values(NamedTuple):
    """A tensor's shape, and its first numbers."""

    shape: torch.Size
    numbers: torch.Tensor


class _Offset(NamedTuple):
    """An addition to the rows of a call before a module.

    added  what was added, shape (rows, numbers)
    rows   the first numbers of the rows
    """

    module: weakref.ref[nn.Module]
    added: torch.Tensor
    rows: torch.Tensor | None


@watches(ROWS_BY_PLACE)
class RowPlaces:
    """The offsets of rows at the first calls of the outermost modules."""

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._calls = self._pairs = 0
        self._rows_of_loader = 0
        self._is_open = self._is_batch_first = self._is_batch_second = False
        self._newest: _Values | None = None
        self._data: torch.Tensor | None = None  # of the open call
        self._found: _Offset | None = None  # in the open call, with its shape
        self._shape = torch.Size()
        self._offsets: list[_Offset] = []
        self._counts: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Note the number of rows of the DataLoader's batches."""
        first = next(iter(readable_tensors(batch)), None)
        self._rows_of_loader = first.shape[0] if first is not None and first.dim() else 0

    def outermost_called(self, module: nn.Module) -> None:
        """Begin with another call."""
        self._settle()
        self._newest = self._data = None
        self._is_batch_first = self._is_batch_second = False
        self._is_open = self._calls < _MOST_CALLS and not self._counts
        self._pairs = 0

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Compare what a module is given with what was given before it."""
        if not self._is_open or not torch.is_grad_enabled():
            return
        first = next(iter(flatten(args, kwargs)), None)
        if self._data is None and first is not None and first.dim() > 1 and _is_readable(first):
            self._data = first.detach()[:_ROWS, :_NUMBERS].clone()
        self._see(module, first)
        if self._found is not None and first is not None and first.shape == self._shape:
            is_first = attribute_of(module, "batch_first")
            self._is_batch_first |= is_first is True
            self._is_batch_second |= is_first is False

    def returned(self, module: nn.Module, output: Any) -> None:
        """Compare what a module gives with what was given before."""
        if self._is_open and torch.is_grad_enabled():
            self._see(module, next(iter(flatten(output)), None))

    def changes(self) -> int:
        """Return the number of modules that were found, once the newest call is judged."""
        self._settle()
        return len(self._counts)

    def of(self, module: nn.Module) -> int:
        """Return the number of rows with such an offset before a module; 0 for none."""
        return self._counts.get(module, 0)

    def _see(self, module: nn.Module, tensor: torch.Tensor | None) -> None:
        if tensor is None or tensor.dim() != 3 or tensor.dtype not in _SINGLE or not _is_readable(tensor):
            return
        before = self._newest
        now = _Values(tensor.shape, tensor.detach()[:_ROWS, :_PLACES, :_NUMBERS].clone())
        self._newest = now
        if self._found is not None or before is None or before.shape != now.shape or self._pairs >= _MOST_PAIRS:
            return
        if before.numbers.device != now.numbers.device or before.numbers.dtype != now.numbers.dtype:
            return
        self._pairs += 1
        with torch.no_grad():
            added = _added(before.numbers, now.numbers)
        if added is not None:
            self._found, self._shape = _Offset(weakref.ref(module), added, self._data), tensor.shape

    def _settle(self) -> None:
        """Count the open call's offset if it is like those before, and the rows are others."""
        found, self._found = self._found, None
        if not self._is_open:
            return
        self._is_open = False
        self._calls += 1
        is_of_batch = self._is_batch_first or (self._shape[:1] == (self._rows_of_loader,) != self._shape[1:2])
        if found is None or not is_of_batch or self._is_batch_second:
            return
        with torch.no_grad():
            self._offsets = [each for each in self._offsets if _is_alike(each, found)] + [found]
        module = found.module()
        if len(self._offsets) >= FEWEST and module is not None:
            self._counts[module] = self._shape[0]
            self._offsets = []
            self._changed()


def _is_readable(tensor: torch.Tensor) -> bool:
    is_plain = tensor.layout == torch.strided and not is_in_cuda_graph(tensor)
    return is_plain and has_memory(tensor) and tensor.numel() > 0


def _added(before: torch.Tensor, now: torch.Tensor) -> torch.Tensor | None:
    """Return what was added to each row at all of its places, shape (rows, numbers); None if it is not so.

    One row, or one place, shows nothing.
    """
    if min(now.shape[:2]) < 2:
        return None
    difference = now - before
    added = difference[:, 0]
    rest = (difference - added[:, None]).abs().max()
    spread = (added - added.mean(0)).abs().max()
    limit = _ROUNDING * torch.maximum(now.abs().max(), before.abs().max())
    return added if bool((rest <= limit) & (spread > 10 * limit)) else None


def _is_alike(one: _Offset, other: _Offset) -> bool:
    """Return True if rows of other data were given the same at the same places."""
    if one.module() is not other.module() or one.rows is None or other.rows is None:
        return False
    count = min(len(one.added), len(other.added))
    first, second = (each.added[:count] - each.added[:count].mean(0) for each in (one, other))
    if first.shape != second.shape or first.device != second.device or count < 2:
        return False
    cosine = torch.nn.functional.cosine_similarity(first.reshape(1, -1), second.reshape(1, -1))
    return float(cosine) > _ALIKE and _are_others(one.rows[:count], other.rows[:count])


def _are_others(rows: torch.Tensor, others: torch.Tensor) -> bool:
    """Return True if most rows are others than those at the same place."""
    if rows.shape != others.shape:
        return True
    differ = (rows != others).reshape(len(rows), -1).any(1)
    return float(differ.float().mean()) > 0.5
