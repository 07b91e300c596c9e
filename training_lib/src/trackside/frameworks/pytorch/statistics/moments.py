"""The moments of many tensors on the CPU, from which all their reductions follow.

With the compiled loops of `trackside-native` it is one pass over each tensor.

Without them it is NumPy and PyTorch. A call costs as much as reading thousands of numbers, so tensors of up to 65,536
elements are copied side by side into a buffer that the cache holds, and reduced together. Larger ones are walked
through in blocks, and never copied. Values are single precision; rows of 256 of them are added up in it, and rows in
double.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trackside.capture.statistics.one_pass import LOOPS, Arrays, Loops
from trackside.capture.steps.reduced_tensors import Moments, Numbers

_BLOCK = 1 << 16  # elements
_BUFFER = 1 << 17  # elements: half a MiB, half of a usual L2 cache
_ROW = 1 << 8  # elements
_FLAT_MEAN = 8.0  # mean² over the mean square deviation, from where on Σx² - Σx·mean has lost too many digits
_MOST_PLANS = 64
_MOST_VIEWS = 256

Tensors = Sequence[torch.Tensor]
_View = tuple[torch.Tensor, NDArray[np.float32]]


class MomentReader:
    """A reader of moments. It holds a buffer, so one serves one thread.

    Args:
        loops: The compiled loops; None: by NumPy and PyTorch.
    """

    def __init__(self, loops: Loops | None = LOOPS) -> None:
        self._loops = loops
        self._buffer = torch.empty(_BUFFER)  # memory that is not used before the first reading
        self._plans: dict[tuple[torch.Size, ...], _Plan] = {}
        self._views: dict[int, _View] = {}

    def read(self, tensors: Tensors) -> Moments:
        """Return the moments of tensors on the CPU: float32, contiguous, at least one element each.

        No gradient is recorded.
        """
        shapes = tuple([tensor.shape for tensor in tensors])
        plan = self._plans.get(shapes)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[shapes] = _Plan(shapes, self._buffer)
        if self._loops is not None:
            sums = self._loops.sums(plan.arrays, [tensor.data_ptr() for tensor in tensors])
            with np.errstate(all="ignore"):
                return self._moments(tensors, plan.count, sums[:5])
        sums = np.empty((5, len(tensors)))  # Σx, Σ|x|, Σx², min x, max x
        with np.errstate(all="ignore"):
            for group in plan.groups:
                group.read(tensors, sums)
            for place in plan.large:
                sums[:, place] = self._blocks(tensors[place].view(-1))
            return self._moments(tensors, plan.count, sums)

    def _moments(self, tensors: Tensors, count: Numbers, sums: Numbers) -> Moments:
        total, abs_total, squares, smallest, largest = sums
        mean = total / count
        products = total * mean
        spread = squares - products
        is_lost = ~(spread * _FLAT_MEAN > products)  # numbers that are nearly alike; or a NaN
        if is_lost.any():
            for place in np.flatnonzero(is_lost).tolist():
                is_one = smallest[place] == largest[place]
                spread[place] = 0.0 if is_one else self._spread(tensors[place].view(-1), mean[place])
        return Moments(count, total, abs_total, spread, smallest, largest)

    def _blocks(self, flat: torch.Tensor) -> tuple[float, ...]:
        sums = np.array([self._block(block) for block in torch.split(flat, _BLOCK)]).T
        return *np.add.reduce(sums[:3], axis=1), np.minimum.reduce(sums[3]), np.maximum.reduce(sums[4])

    def _block(self, block: torch.Tensor) -> tuple[float, ...]:
        array = block.numpy()
        buffer, work = self._view(len(block))
        # Of large arrays a sum by torch takes a third of NumPy's time, a minimum by NumPy half of torch's.
        total = block.sum().item()
        np.absolute(array, out=work)
        abs_total = buffer.sum().item()
        np.multiply(array, array, out=work)
        return total, abs_total, buffer.sum().item(), np.minimum.reduce(array), np.maximum.reduce(array)

    def _spread(self, flat: torch.Tensor, mean: float) -> float:
        """Return Σ(x - mean)², computed around a number near the mean that single precision can hold."""
        near = float(np.float32(mean))
        total = squares = 0.0
        for block in torch.split(flat, _BLOCK):
            moved = torch.sub(block, near, out=self._view(len(block))[0])
            total += moved.sum().item()
            squares += moved.square_().sum().item()
        return max(0.0, squares - total * total / len(flat))

    def _view(self, count: int) -> _View:
        """Return the first `count` elements of the buffer."""
        found = self._views.get(count)
        if found is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            part = self._buffer[:count]
            found = self._views[count] = part, part.numpy()
        return found


class _Plan:
    """The way to read tensors of these shapes."""

    def __init__(self, shapes: Sequence[torch.Size], buffer: torch.Tensor) -> None:
        counts = [shape.numel() for shape in shapes]
        self.count = np.array(counts, np.float64)
        self.arrays = Arrays(counts)
        self.large = [place for place, count in enumerate(counts) if count > _BLOCK]
        self.groups: list[_Group] = []
        members: list[int] = []
        end = 0
        for place, count in enumerate(counts):
            if count > _BLOCK:
                continue
            if end + _padded(count) > _BUFFER:
                self.groups.append(_Group(members, shapes, buffer))
                members, end = [], 0
            members.append(place)
            end += _padded(count)
        if members:
            self.groups.append(_Group(members, shapes, buffer))


class _Group:
    """Tensors that lie side by side in the buffer, each at the beginning of a row."""

    def __init__(self, members: list[int], shapes: Sequence[torch.Size], buffer: torch.Tensor) -> None:
        counts = np.array([shapes[place].numel() for place in members])
        sizes = _padded(counts)
        starts = np.cumsum(sizes) - sizes
        self._members = members
        self._copies = [
            buffer[start : start + count].view(shapes[place])
            for start, count, place in zip(starts.tolist(), counts.tolist(), members, strict=True)
        ]
        whole = buffer[: int(sizes.sum())]
        self._rows, self._array = whole.view(-1, _ROW), whole.numpy()
        self._row_sums = torch.empty(len(self._rows))
        self._sums = self._row_sums.numpy()
        self._first_rows = starts // _ROW
        padding = [
            np.arange(start + count, start + size) for start, count, size in zip(starts, counts, sizes, strict=True)
        ]
        self._padding = np.concatenate(padding)
        ends = (starts + counts)[counts < sizes]
        self._cuts = np.sort(np.concatenate([starts, ends]))
        self._wanted = np.searchsorted(self._cuts, starts)

    def read(self, tensors: Tensors, sums: Numbers) -> None:
        """Fill in Σx, Σ|x|, Σx², min x and max x of its members, rows of `sums`."""
        members, array = self._members, self._array
        torch._foreach_copy_(self._copies, [tensors[place] for place in members])
        if len(self._padding):
            array[self._padding] = 0
        sums[0, members] = self._totals()
        sums[3, members] = np.minimum.reduceat(array, self._cuts)[self._wanted]
        sums[4, members] = np.maximum.reduceat(array, self._cuts)[self._wanted]
        np.absolute(array, out=array)
        sums[1, members] = self._totals()
        np.multiply(array, array, out=array)
        sums[2, members] = self._totals()

    def _totals(self) -> Numbers:
        torch.sum(self._rows, 1, out=self._row_sums)
        totals: Numbers = np.add.reduceat(self._sums, self._first_rows, dtype=np.float64)
        return totals


def _padded(count: Any) -> Any:
    """Return the number of elements, rounded up to whole rows."""
    return -(-count // _ROW) * _ROW
