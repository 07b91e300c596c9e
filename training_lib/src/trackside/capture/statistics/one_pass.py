"""Sums over lists of float32 arrays, in one pass of compiled code, where the wheel `trackside-native` is installed.

    arrays = Arrays([10, 20])                              # room for two arrays of these lengths
    if LOOPS is not None:
        total, sizes, squares, least, largest, zeros = LOOPS.sums(arrays, [address, address])

The interpreter's lock is released meanwhile. Without the wheel `LOOPS` is None, and all is computed by NumPy and
PyTorch, in several passes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.compiled import declared, library

_SUMS = 6
# What the compiled code numbers, by smdebug's tokens.
REDUCTION_NUMBERS = {
    "min": 0, "max": 1, "abs_max": 2, "sum": 3, "mean": 4, "abs_sum": 5, "l1_norm": 5, "abs_l1_norm": 5,
    "abs_mean": 6, "l2_norm": 7, "abs_l2_norm": 7, "variance": 8, "std": 9,
}  # fmt: skip

Numbers = NDArray[np.float64]
Addresses = list[Any]  # of numbers: `data_ptr()` of tensors, `ctypes.data` of arrays


class Arrays:
    """Room for the addresses of arrays of these lengths, and for their sums; for one thread."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.length = len(counts)
        self.counts = (ctypes.c_int64 * self.length)(*counts)
        self.addresses, self.others = ((ctypes.c_void_p * self.length)() for _ in range(2))
        self.found: Numbers = np.empty((_SUMS, self.length))
        self.out = self.found.ctypes.data

    def first_row(self) -> Numbers:
        """Return a copy of the first row of what was found."""
        first: Numbers = self.found[:1].copy().reshape(-1)
        return first


class ReductionCells:
    """Room for reductions of arrays of these lengths, and their places in a row; for one thread.

    Args:
        counts: Lengths of the arrays.
        cells: The array and the reduction of each place in the row: a place in `counts`, a name of `REDUCTION_NUMBERS`.
    """

    def __init__(self, counts: Sequence[int], cells: Sequence[tuple[int, str]]) -> None:
        self.length = len(counts)
        self.counts = (ctypes.c_int64 * self.length)(*counts)
        self.addresses = (ctypes.c_void_p * self.length)()
        by_array = sorted((array, REDUCTION_NUMBERS[token], place) for place, (array, token) in enumerate(cells))
        ends = np.cumsum(np.bincount([array for array, _ in cells], minlength=self.length)).tolist()
        self.firsts = (ctypes.c_int64 * (self.length + 1))(0, *ends)
        self.cells = (ctypes.c_int64 * (2 * len(cells)))(*(number for cell in by_array for number in cell[1:]))
        self.row: NDArray[np.float32] = np.empty(len(cells), np.float32)
        self.out = self.row.ctypes.data


class Loops:
    """The compiled loops. All arrays are float32, contiguous, and stay where they are meanwhile."""

    def __init__(self, compiled: ctypes.CDLL) -> None:
        number, place = ctypes.c_int64, ctypes.c_void_p
        self._sums = declared(compiled.trackside_sums, number, place, place, place)
        self._squares = declared(compiled.trackside_squares, number, place, place, place)
        self._copy = declared(compiled.trackside_copy_squares, number, place, place, place, place)
        self._change = declared(compiled.trackside_change_squares, number, place, place, place, place)
        self._reductions = declared(
            compiled.trackside_reductions, number, place, place, place, place, place, result=ctypes.c_int32
        )
        self._sampled = declared(compiled.trackside_sampled_change, number, place, place, place, place, place)

    def sums(self, arrays: Arrays, addresses: Addresses) -> Numbers:
        """Return Σx, Σ|x|, Σx², min x, max x and the number of zeros of each, shape (6, arrays).

        Minimum and maximum are NaN where any value is.
        """
        arrays.addresses[:] = addresses
        self._sums(arrays.length, arrays.addresses, arrays.counts, arrays.out)
        sums: Numbers = arrays.found.copy()
        return sums

    def reductions(self, cells: ReductionCells, addresses: Addresses) -> NDArray[np.float32] | None:
        """Return the row of reductions.

        None if any value is not finite, or is so small or large that single precision cannot hold its square.
        """
        cells.addresses[:] = addresses
        if not self._reductions(cells.length, cells.addresses, cells.counts, cells.firsts, cells.cells, cells.out):
            return None
        row: NDArray[np.float32] = cells.row.copy()
        return row

    def squares(self, arrays: Arrays, addresses: Addresses) -> Numbers:
        """Return Σx² of each."""
        arrays.addresses[:] = addresses
        self._squares(arrays.length, arrays.addresses, arrays.counts, arrays.out)
        return arrays.first_row()

    def copy(self, arrays: Arrays, addresses: Addresses, copies: Addresses) -> Numbers:
        """Copy each to the address in `copies`. Return Σx² of each."""
        arrays.addresses[:], arrays.others[:] = addresses, copies
        self._copy(arrays.length, arrays.addresses, arrays.others, arrays.counts, arrays.out)
        return arrays.first_row()

    def change(self, arrays: Arrays, addresses: Addresses, before: Addresses) -> Numbers:
        """Subtract each from the values at the address in `before`. Return the sum of squares of what is left."""
        arrays.addresses[:], arrays.others[:] = addresses, before
        self._change(arrays.length, arrays.addresses, arrays.others, arrays.counts, arrays.out)
        return arrays.first_row()

    def sampled_change(self, sample: Sample) -> tuple[float, float]:
        """Return the sum of squares of the sample's change since the last call, and that of the sample."""
        self._sampled(sample.length, sample.addresses, sample.strides, sample.counts, sample.before, sample.found)
        return sample.found[0], sample.found[1]


class Sample:
    """Some values of each of several float32 arrays, a stride apart, and their values before. None of them moves."""

    def __init__(self, addresses: Sequence[int], strides: Sequence[int], counts: Sequence[int]) -> None:
        self.length = len(addresses)
        self.addresses = (ctypes.c_void_p * self.length)(*addresses)
        self.strides = (ctypes.c_int64 * self.length)(*strides)
        self.counts = (ctypes.c_int64 * self.length)(*counts)
        self.before = (ctypes.c_float * sum(counts))()
        self.found = (ctypes.c_double * 2)()


def _loaded() -> Loops | None:
    found = library()
    return Loops(found) if found is not None else None


LOOPS = _loaded()
