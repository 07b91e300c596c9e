"""Tensors as a NumPy file: written whole or not at all, one tensor in memory at a time."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.contracts.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def write_npy(path: str, read: Callable[[], Iterable[NDArray[np.generic]]], *, count: int | None) -> tuple[int, ...]:
    """Write the one array of `read`, or `count` of them stacked along a new first axis. Return the file's shape.

    Errors: `ConfigurationError` for a place that cannot be written, texts and objects, or tensors that differ in shape
    or type; then no file is left behind. Those of `read`.
    """
    target = Path(path)
    if target.suffix != ".npy":
        raise _refused(path, "does not end in .npy.", "Name a file such as values.npy.")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        shape = _write(partial, read(), count, path)
        partial.replace(target)
    except OSError as error:
        if error.filename is None:  # of the store that is read
            raise
        raise _refused(path, f"cannot be written: {error.strerror}.", "Name another place.") from error
    finally:
        partial.unlink(missing_ok=True)
    return shape


def _write(partial: Path, arrays: Iterable[NDArray[np.generic]], count: int | None, path: str) -> tuple[int, ...]:
    import numpy as np

    rows = iter(arrays)
    first = next(rows)  # callers have checked that one exists
    if first.dtype.kind not in "biufcSU":
        raise _refused(path, f"cannot hold values of type {first.dtype}.", "Take --format json.")
    if count is None:
        with partial.open("wb") as file:
            np.save(file, first, allow_pickle=False)
        return first.shape
    stacked = np.lib.format.open_memmap(partial, mode="w+", dtype=first.dtype, shape=(count, *first.shape))
    for place, row in enumerate(itertools.chain((first,), rows)):
        if row.shape != first.shape or row.dtype != first.dtype:
            what = "can hold one shape and type only, and this tensor changed its own."
            raise _refused(path, what, "Choose fewer --steps, or take --format jsonl.")
        stacked[place] = row
    stacked.flush()
    return stacked.shape


def _refused(path: str, what: str, fix: str) -> ConfigurationError:
    return ConfigurationError([Problem(f"--npy {path}", what, fix)], subject="The NumPy file")
