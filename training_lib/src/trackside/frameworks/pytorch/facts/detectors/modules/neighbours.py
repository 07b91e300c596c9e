"""Inputs with axes that a view took for others: neighbours are alike in another order of the axes, and not in theirs.

A picture stored as (height, width, channel) and viewed as (channel, height, width) fits a convolution, and a batch
viewed with its first two axes exchanged fits a recurrent layer. What is smooth shows the order in which it lies in
memory. Only pairs count that the layer sees far apart, at the end of one row and the beginning of the next: in the
right order they are strangers, however the data repeats. Noise and tables show nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from trackside.contracts.observations import OTHER_ORDER
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES
from trackside.frameworks.shared.detectors import watches

ENOUGH = 3  # calls in a row
_MOST_CALLS = 6  # that are looked at
_MOST_NUMBERS = 1 << 18  # of an input that are read
_MOST_ROWS = 32  # of pictures and series
_SHORTEST = 8  # places along an axis that neighbours are compared along
_FEWEST_PAIRS = 32
_ALIKE = 0.3  # mean squared difference of a pair over that of strangers
_UNLIKE = 0.25
_TIMES_UNLIKE = 2.0
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


class _Pairs(NamedTuple):
    """Neighbours along an axis in another order.

    - `distance`: in memory
    - `seen`: the length of the rows that the layer sees: only pairs over their ends count
    - `own`: the length of the rows in the other order: pairs over their ends are none
    """

    distance: int
    seen: int
    own: int


@watches(OTHER_ORDER)
class Neighbours:
    """The first inputs without gradients of convolutions and recurrent layers."""

    kinds = (*_CONVOLUTIONS, nn.RNNBase)

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._calls = 0
        self._found: weakref.WeakKeyDictionary[nn.Module, list[str]] = weakref.WeakKeyDictionary()
        self._orders: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Look at the neighbours in an input."""
        if self._calls >= _MOST_CALLS or not torch.is_grad_enabled():
            return
        given = args[0] if args else kwargs.get("input")
        if type(given) not in PLAIN_TYPES or given.requires_grad or not _is_readable(given):
            return
        self._calls += 1
        with torch.no_grad():
            found = [*self._found.get(module, []), _order_of(module, given.detach())]
        self._found[module] = found
        if len(found) >= ENOUGH and found[-1] and len(set(found[-ENOUGH:])) == 1 and module not in self._orders:
            self._orders[module] = found[-1]
            self._changed()

    def changes(self) -> int:
        """Return the number of modules that were found."""
        return len(self._orders)

    def of(self, module: nn.Module) -> str:
        """Return the order of the axes of a module's inputs as they lie in memory; "" for the module's own."""
        return self._orders.get(module, "")


def _is_readable(tensor: torch.Tensor) -> bool:
    is_plain = tensor.layout == torch.strided and tensor.is_floating_point() and not is_in_cuda_graph(tensor)
    return is_plain and has_memory(tensor) and tensor.numel() > 0


def _order_of(module: nn.Module, given: torch.Tensor) -> str:
    """Return the order in which neighbours are alike, where those of the layer are not; "" for its own, or none."""
    if isinstance(module, _CONVOLUTIONS):
        return _of_convolution(module, given)
    return _of_sequences(module, given) if isinstance(module, nn.RNNBase) else ""


def _of_convolution(module: nn.Module, given: torch.Tensor) -> str:
    is_flat = isinstance(module, nn.Conv2d)
    if given.dim() != 3 + is_flat or given.shape[1] < 2 or min(given.shape[2:]) < _SHORTEST:
        return ""
    rows = given[: min(_MOST_ROWS, max(1, _MOST_NUMBERS // given[0].numel()))]
    channels, *sizes = rows.shape[1:]
    rows = _centred(rows.reshape(len(rows), -1))
    whole, last = rows.shape[1] // channels, sizes[-1]
    own = [1] if not is_flat else [1, last]
    others = [_Pairs(channels, last, last * channels)]
    others += [_Pairs(last * channels, whole, channels * whole)] if is_flat else []
    if channels % last == 0 or not _is_other(rows, own, others):
        return ""
    return "rows, columns, channels" if is_flat else "steps, channels"


def _of_sequences(module: nn.Module, given: torch.Tensor) -> str:
    if given.dim() != 3 or given.numel() > _MOST_NUMBERS or min(given.shape[:2]) < 2:
        return ""
    is_batch_first = bool(getattr(module, "batch_first", False))
    first, second, width = given.shape
    steps, count = (second, first) if is_batch_first else (first, second)
    if steps < _SHORTEST or steps == count:
        return ""
    centred = _centred(given, axis=0 if is_batch_first else 1).reshape(1, -1)
    own, other = (width, count * width) if is_batch_first else (count * width, width)
    if _is_other(centred, [own], [_Pairs(other, second * width, steps * other)]):
        return "steps, rows" if is_batch_first else "rows, steps"
    if is_batch_first and width > 1:
        rows = given.reshape(first, -1)[:_MOST_ROWS]
        return "channels, steps" if _is_other(_centred(rows), [width], [_Pairs(1, width, steps)]) else ""
    return ""


def _centred(values: torch.Tensor, axis: int = 0) -> torch.Tensor:
    """Return values less the mean over the samples: what all of them have at a place is no likeness of neighbours."""
    values = values.float()
    return values - values.mean(axis, keepdim=True)


def _is_other(rows: torch.Tensor, own: Sequence[int], others: Sequence[_Pairs]) -> bool:
    """Return True if neighbours in another order are alike, and those of the layer's own order are not.

    Args:
        rows: Values in the layer's order, shape (rows, numbers); pairs lie within a row.
        own: Distances of neighbours in that order.
        others: Neighbours in the other one.
    """
    alike: list[torch.Tensor] = []
    for distance, seen, length in others:
        places = torch.arange(rows.shape[1] - distance, device=rows.device)
        places = places[(places % seen + distance >= seen) & (places % length + distance < length)]
        if len(places) * len(rows) < _FEWEST_PAIRS:
            return False
        alike.append(_unlikeness(rows[:, places], rows[:, places + distance]))
    unlike = torch.stack([_unlikeness(rows[:, :-distance], rows[:, distance:]) for distance in own]).max()
    most = torch.stack(alike).max()
    return bool((most <= _ALIKE) & (unlike >= _UNLIKE) & (unlike >= _TIMES_UNLIKE * most))


def _unlikeness(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the mean squared difference of pairs over that of strangers; NaN without any spread."""
    return (one - other).square().mean() / (one.var(correction=0) + other.var(correction=0))
