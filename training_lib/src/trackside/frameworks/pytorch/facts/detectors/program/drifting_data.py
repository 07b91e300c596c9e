"""Stored rows of data sets that drift from pass to pass: they are changed in place as they are fetched.

`row = self.rows[i]; row += noise` writes into the store. A few rows of each store of inputs are compared at the first
batch of a pass: they drift if each is like itself at the pass before, and all are ever farther from the first ones, or
ever larger or smaller. New draws, and a copy that is noisy anew, do not. Stores of DataLoader workers are not seen.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trackside.contracts.observations import DRIFTING_DATA
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.shared.detectors import watches

_STORES = {torch.Tensor, np.ndarray, list, dict}  # others may read a file, or the network, for a row
CHANGES = 4  # in a row, before a store drifts
_MOST_STORES, _ROWS, _MOST_NUMBERS = 4, 8, 256
_MUCH_ALIKE = 0.5  # correlation of the rows of two passes
_FARTHER = 1.5  # times as far from the first rows as after the first change
_RESIZED = 2.0  # times as large or as small


@dataclass
class _Store:
    """The rows of one attribute of a data set at the first and the newest look, and the distances between."""

    holder: int
    first: NDArray[np.float64]
    newest: NDArray[np.float64]
    distances: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)

    def is_drifting(self, rows: NDArray[np.float64]) -> bool:
        """Return True if the rows drift, with those of another pass."""
        before, self.newest = self.newest, rows
        if not _are_alike(before, rows):
            self.first, self.distances, self.sizes = rows, [], []
            return False
        self.distances.append(float(np.linalg.norm(rows - self.first)))
        self.sizes.append(float(np.linalg.norm(rows)))
        farther, sizes = self.distances[-CHANGES:], self.sizes[-CHANGES:]
        if len(farther) < CHANGES:
            return False
        return (_rises(farther) and farther[-1] > _FARTHER * farther[0]) or (
            (_rises(sizes) or _rises(sizes[::-1])) and not 1 / _RESIZED < sizes[-1] / max(sizes[0], 1e-300) < _RESIZED
        )


@watches(DRIFTING_DATA)
class DriftingData:
    """The stores of data sets that are trained on."""

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._stores: weakref.WeakKeyDictionary[Any, dict[str, _Store]] = weakref.WeakKeyDictionary()
        self._name = ""

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Compare the stores of the pass's data set with those at the pass before."""
        dataset = attribute_of(iterator, "_dataset")
        while isinstance(dataset, torch.utils.data.Subset):
            dataset = dataset.dataset
        if self._name or attribute_of(iterator, "_num_workers", 0) or not hasattr(dataset, "__dict__"):
            return
        shapes = {tuple(each.shape[1:]) for each in readable_tensors(batch) if each.is_floating_point()}
        known = self._stores.setdefault(dataset, {})
        for name, holder, rows in _stores_of(dataset, shapes):
            store = known.get(name)
            if store is None or store.holder != id(holder) or store.newest.shape != rows.shape:
                known[name] = _Store(id(holder), rows, rows)
            elif store.is_drifting(rows):
                self._name = f"{type(dataset).__name__}.{name}"
                self._changed()
                return

    def of(self, watch: Watch) -> str:
        """Return the name of the first store that drifts; "" for none."""
        return self._name


def _stores_of(dataset: Any, shapes: set[tuple[int, ...]]) -> Iterator[tuple[str, Any, NDArray[np.float64]]]:
    """Yield name, holder and some rows of the attributes that hold rows of the batch's shape, of several numbers."""
    count = 0
    for name, holder in list(vars(dataset).items()):
        if type(holder) not in _STORES or not getattr(holder, "ndim", 1) or len(holder) < _ROWS:
            continue
        rows = [row for row in _some(holder) if tuple(getattr(row, "shape", ())) in shapes and _is_read(row)]
        if len(rows) == _ROWS and count < _MOST_STORES:
            count += 1
            yield name, holder, np.array([np.asarray(row, np.float64).reshape(-1)[:_MOST_NUMBERS] for row in rows])


def _some(holder: Any) -> Sequence[Any]:
    keys = itertools.islice(holder, _ROWS) if isinstance(holder, dict) else range(0, len(holder), len(holder) // _ROWS)
    return [holder[key] for key in keys][:_ROWS]


def _is_read(row: Any) -> bool:
    if isinstance(row, torch.Tensor):
        return row.is_cpu and has_memory(row) and row.dtype in {torch.float32, torch.float64}
    return isinstance(row, np.ndarray) and row.dtype.kind == "f"


def _are_alike(before: NDArray[np.float64], now: NDArray[np.float64]) -> bool:
    """Return True if half of the rows have changed or more, and each of these is most like, or nearest to, itself."""
    changed = np.flatnonzero((before != now).any(axis=1))
    if 2 * len(changed) < len(now) or not np.isfinite([before, now]).all():
        return False
    with np.errstate(invalid="ignore", divide="ignore"):  # of a row of equal numbers, which is like no other
        alike = np.nan_to_num(np.corrcoef(now, before)[: len(now), len(now) :], nan=-1.0)[changed]
    distances = np.linalg.norm(now[changed, None, :] - before[None, :, :], axis=2)
    places = np.arange(len(changed))
    own, own_distances = alike[places, changed], distances[places, changed]
    is_own = (own >= alike.max(axis=1)).all() or (own_distances <= distances.min(axis=1)).all()
    return bool((own > _MUCH_ALIKE).all() and is_own)


def _rises(values: Sequence[float]) -> bool:
    return all(later > earlier for earlier, later in itertools.pairwise(values))
