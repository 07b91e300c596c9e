"""Batches and rows that a training started again leaves out, for loops that are no DataLoader's with row numbers.

    for batch in trackside.skipping(stream): ...           any iterable of batches, known again by their content
    sampler = trackside.SkippingSampler(sampler, data)     rows, or batches of rows

Neither does anything outside `trackside run --rescue restart`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.run.restart import Order
from trackside.environment import RescueEnvironment
from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors
from trackside.frameworks.pytorch.ground.script_objects import length_of
from trackside.rescue.drawn_batches import MOST_BATCHES, kept_rows, name_of

_fetched: deque[tuple[int, str]] = deque(maxlen=MOST_BATCHES)


class _Steps:
    ended = 0  # training steps of this process


def note_steps(steps: int) -> None:
    """Note the number of training steps that have ended.

    Args:
        steps: That number.
    """
    _Steps.ended = steps


def marks_in(first_step: int, last_step: int) -> tuple[str, ...]:
    """Return the marks of batches that `skipping` gave for some steps, both included, or one step early.

    Args:
        first_step: The first of the steps.
        last_step: The last of the steps.
    """
    return tuple(dict.fromkeys(mark for steps, mark in _fetched if first_step - 1 <= steps <= last_step))


@cache
def order_of_environment() -> Order | None:
    """Return what this process is to leave out; None if it is no process that was started again."""
    path = RescueEnvironment.read().leave_out
    try:
        return Order.from_json(Path(path).read_bytes()) if path else None
    except (OSError, ConfigurationError):
        return None


def skipping(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches, but those that `trackside run --rescue restart` leaves out.

    Args:
        batches: Any iterable of tensors, or of structures with tensors, on the processor.
    """
    is_watched, order = RescueEnvironment.read().restarts, order_of_environment()
    left_out = frozenset(order.marks) if order is not None else frozenset()
    for batch in batches:
        mark = _mark_of(batch) if is_watched else ""
        if mark and mark in left_out:
            continue
        if mark:
            _fetched.append((_Steps.ended, mark))
        yield batch


class SkippingSampler:
    """A sampler without the rows that `trackside run --rescue restart` leaves out.

    It is as long as the sampler: a row is replaced by another of its batch, and a batch of such rows by the one before.
    Single rows are left out instead, so that a pass has fewer. DataLoaders need no such sampler.

    Args:
        sampler: Of rows, or of batches of rows.
        data: The data set.
    """

    def __init__(self, sampler: Iterable[Any], data: Any) -> None:
        self._sampler = sampler
        order = order_of_environment()
        name = name_of(data)
        self._left_out = frozenset(
            number for one in (order.left_out if order is not None else ()) if one.data == name for number in one.rows
        )

    def __iter__(self) -> Iterator[Any]:
        before: Any = None
        for rows in self._sampler:
            kept = kept_rows(rows, self._left_out)
            before = kept if kept is not None else before
            if kept is not None or (before is not None and isinstance(rows, (list, tuple))):
                yield before

    def __len__(self) -> int:
        return length_of(self._sampler) or 0


def _mark_of(batch: Any) -> str:
    """Return a mark of the whole content of a batch; "" without tensors that can be read here."""
    digest, tensors = hashlib.blake2b(digest_size=12), readable_tensors(batch)
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest() if tensors else ""
