"""Facts about the DataLoaders of a training, read from the live objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import dataloader
from torch.utils.data._utils.collate import default_collate, default_convert

from trackside.capture.ground.script_lines import Place, is_user_file, user_place
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.speed.pytorch.fetch_times import UNKNOWN, FetchTimes

MOST_LOADERS = 8
MOST_DEPTH = 4  # of lists and dicts in a batch


@dataclass(frozen=True)
class MetLoader:
    """A DataLoader at its first batch. Places are in the user's code; None for a library's.

    Attributes:
        looped_at: The line that asked for the batch.
        dataset: Name of the data set's class.
        dataset_at: The method that returns its items.
        collate: Name of the function that makes a batch of them.
        collate_at: Its place.
        workers: Worker processes; 0: the training fetches by itself.
        batch_size: Items of a batch; 0 if unknown.
        prefetch_factor: Batches that each worker prepares ahead; 0 without workers.
        is_pinned: True if batches are copied to pinned memory.
        is_iterable: True for an `IterableDataset`.
        batch_bytes: Bytes of the tensors of that batch.
        row: The row of its data set in `FetchTimes`.
    """

    looped_at: Place | None
    dataset: str
    dataset_at: Place | None
    collate: str
    collate_at: Place | None
    workers: int
    batch_size: int
    prefetch_factor: int
    is_pinned: bool
    is_iterable: bool
    batch_bytes: int
    row: int = UNKNOWN


class Loaders:
    """The DataLoaders that the training has fetched from.

    Attributes:
        met: Facts about each, in the order of their first batches.
        times: The times of their work.
    """

    def __init__(self) -> None:
        self.met: list[MetLoader] = []
        self.times = FetchTimes()

    def fetched(self, iterator: Any, batch: Any) -> None:
        """Note the DataLoader of an iterator with its first batch."""
        if len(self.met) < MOST_LOADERS:
            facts = replace(_facts(iterator, batch), row=self.times.row_of(iterator._dataset))
            if all(replace(facts, batch_bytes=met.batch_bytes, row=met.row) != met for met in self.met):
                self.met.append(facts)

    def starts(self, loader: Any) -> None:
        """Note a DataLoader before its workers start: they inherit the place for its times."""
        self.times.row_of(loader.dataset)


def _facts(iterator: Any, batch: Any) -> MetLoader:
    dataset, collate = iterator._dataset, iterator._collate_fn
    is_iterable = iterator._dataset_kind == dataloader._DatasetKind.Iterable
    workers = int(iterator._num_workers)
    return MetLoader(
        looped_at=user_place(),
        dataset=type(dataset).__name__,
        dataset_at=_place(_method(dataset, is_iterable=is_iterable)),
        collate="" if collate in (default_collate, default_convert) else attribute_of(collate, "__name__", ""),
        collate_at=_place(collate),
        workers=workers,
        batch_size=_batch_size(iterator),
        prefetch_factor=int(getattr(iterator, "_prefetch_factor", 0) or 0) if workers else 0,
        is_pinned=bool(iterator._pin_memory),
        is_iterable=is_iterable,
        batch_bytes=_bytes_of(batch),
    )


def _bytes_of(batch: Any, depth: int = 0) -> int:
    if isinstance(batch, torch.Tensor):
        return batch.numel() * batch.element_size()
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
    return sum(_bytes_of(part, depth + 1) for part in parts) if depth < MOST_DEPTH else 0


def _method(dataset: Any, *, is_iterable: bool) -> Callable[..., Any] | None:
    kind = type(dataset)
    names = ("__iter__",) if is_iterable else ("__getitems__", "__getitem__")
    return next((getattr(kind, name) for name in names if hasattr(kind, name)), None)


def _place(function: Any) -> Place | None:
    """Return the place of a function of the user's, or of a class's method that is called like one."""
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    if code is None:
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)
    return Place(code.co_filename, code.co_firstlineno) if code and is_user_file(code.co_filename) else None


def _batch_size(iterator: Any) -> int:
    size = attribute_of(iterator._index_sampler, "batch_size")
    return size if isinstance(size, int) else 0
