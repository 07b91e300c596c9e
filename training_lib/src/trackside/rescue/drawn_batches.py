"""The newest batches of a training's DataLoaders, so that a fault can name its rows; and rows that are left out.

A row that is left out is replaced by another of its batch, and a batch of such rows by rows of earlier ones of the
pass, or by the next at its start. So each pass has as many batches as without, of the same sizes, on each rank.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils.data import dataloader

from trackside.contracts.run.restart import LeftOut, Order, merged
from trackside.frameworks.pytorch.compiling.tracing import is_dynamo_compiling, skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.script_objects import attribute_of, length_of
from trackside.frameworks.shared.replaced_methods import ReplacedFunction

MOST_BATCHES = 1024  # that are remembered
MOST_BEFORE = 256  # of a pass, whose rows may come again
_NOTHING: Any = object()


class _Drawn(NamedTuple):
    """A batch that was fetched: the training steps that had ended by then, its data set, and its rows."""

    steps: int
    data: str
    rows: tuple[int, ...]


class _Pass:
    """A pass over one data set.

    Attributes:
        order: The iterator over its sampler.
        waiting: Rows of batches that were drawn and not fetched.
        before: The rows of earlier batches.
        turn: Number of batches made of those.
        ahead: Rows that were drawn early, and come next.
    """

    def __init__(self, order: Any) -> None:
        self.order = order
        self.waiting: deque[tuple[int, ...]] = deque()
        self.before: deque[Any] = deque(maxlen=MOST_BEFORE)
        self.ahead, self.turn = _NOTHING, 0

    def earlier(self, rows: Any) -> Any:
        """Return rows of earlier batches in the place of others, each of another batch; nothing before the first one.

        Args:
            rows: The others: a list, or one.
        """
        if not self.before:
            return _NOTHING
        turn, count = self.turn, len(self.before)
        self.turn += 1
        if not isinstance(rows, (list, tuple)):
            return self.before[turn % count]
        found = []
        for place in range(len(rows)):
            batch = self.before[(turn + place) % count]
            found.append(batch[(place + turn // count) % len(batch)])  # so that no two are the same for long
        return found


class DrawnBatches:
    """Notes the rows of batches, and replaces those that are left out.

    Args:
        steps: Returns the number of training steps that have ended.
        fuse: Keeps errors of ours from the script.
        order: What is left out; None for nothing.
    """

    def __init__(self, steps: Callable[[], int], fuse: Fuse, order: Order | None) -> None:
        self._steps = steps
        self._newest: deque[_Drawn] = deque(maxlen=MOST_BATCHES)
        self._passes: weakref.WeakKeyDictionary[Any, _Pass] = weakref.WeakKeyDictionary()
        self._left_out = {one.data: frozenset(one.rows) for one in order.left_out} if order is not None else {}
        parts = (self._begin, self._replace, self._take_next, self._drawn)
        self._guarded = tuple([untraced(fuse.protect(part)) for part in parts])
        self._note_fetch = untraced(fuse.protect(self._fetched))
        iterator = dataloader._BaseDataLoaderIter
        self._hooks = (
            ReplacedFunction(iterator, "_next_index", self._watched_draw),
            ReplacedFunction(iterator, "__next__", self._watched_fetch),
        )

    def put_in(self) -> None:
        """Begin. Call it before the adapter that captures is installed, which sees the rows that are trained on."""
        for hook in self._hooks:
            hook.put_in()

    def take_out(self) -> None:
        """End."""
        for hook in reversed(self._hooks):
            hook.take_out()

    def fetched_in(self, first_step: int, last_step: int) -> tuple[LeftOut, ...]:
        """Return the rows of the batches that were fetched for some steps, both included, or one step early."""
        found = [one for one in self._newest if first_step - 1 <= one.steps <= last_step]
        return merged(LeftOut(one.data, one.rows) for one in found)

    def _watched_draw(self, original: Any) -> Any:
        begins, replaces, takes_next, drawn = self._guarded

        @functools.wraps(original)
        def _next_index(self: Any) -> Any:
            if is_dynamo_compiling() or not torch.is_grad_enabled():
                return original(self)
            held = [_NOTHING]
            begins(self, held)
            if held[0] is _NOTHING:
                held[0] = original(self)
            rows = held[0]
            replaces(self, held)
            if held[0] is _NOTHING:  # all rows of the first batch of a pass are left out
                try:
                    held[0] = original(self)
                    takes_next(self, held)
                except StopIteration:
                    held[0] = rows
            drawn(self, held)
            return held[0]

        skip_frame(_next_index)
        return _next_index

    def _watched_fetch(self, original: Any) -> Any:
        fetched = self._note_fetch

        @functools.wraps(original)
        def __next__(self: Any) -> Any:  # noqa: N807 - it replaces one
            batch = original(self)
            if not is_dynamo_compiling():
                fetched(self)
            return batch

        skip_frame(__next__)
        return __next__

    def _begin(self, iterator: Any, held: list[Any]) -> None:
        """Take the rows that were drawn early, if any."""
        now = self._pass_of(iterator)
        held[0], now.ahead = now.ahead, _NOTHING

    def _replace(self, iterator: Any, held: list[Any]) -> None:
        """Replace rows that are left out. Hold nothing if the next batch is needed for it."""
        left_out = self._left_out.get(name_of(iterator._dataset)) if self._left_out else None
        if left_out and _has_rows(iterator):
            kept = kept_rows(held[0], left_out)
            now = self._pass_of(iterator)
            held[0] = now.earlier(held[0]) if kept is None else kept
            if kept is not None:
                now.before.append(kept)

    def _take_next(self, iterator: Any, held: list[Any]) -> None:
        """Use the rows of the second batch of a pass for the first one, too."""
        self._pass_of(iterator).ahead = held[0]
        kept = kept_rows(held[0], self._left_out[name_of(iterator._dataset)])
        held[0] = held[0] if kept is None else kept

    def _drawn(self, iterator: Any, held: list[Any]) -> None:
        if _has_rows(iterator):
            self._pass_of(iterator).waiting.append(numbers_of(held[0]))

    def _fetched(self, iterator: Any) -> None:
        now = self._passes.get(iterator)
        if now is not None and now.waiting:
            rows = now.waiting.popleft()
            if rows:
                self._newest.append(_Drawn(self._steps(), name_of(iterator._dataset), rows))

    def _pass_of(self, iterator: Any) -> _Pass:
        order, now = attribute_of(iterator, "_sampler_iter"), self._passes.get(iterator)
        if now is None or now.order is not order:
            now = self._passes[iterator] = _Pass(order)
        return now


def _has_rows(iterator: Any) -> bool:
    return bool(iterator._dataset_kind != dataloader._DatasetKind.Iterable)


def name_of(dataset: Any) -> str:
    """Return the name by which a data set is known again in another process: its class and its length."""
    return f"{type(dataset).__qualname__} of {length_of(dataset)}"


def numbers_of(rows: Any) -> tuple[int, ...]:
    """Return rows as whole numbers; () for rows of another kind, which a sampler may give."""
    try:
        return tuple(map(operator.index, rows if isinstance(rows, (list, tuple)) else [rows]))
    except TypeError:
        return ()


def kept_rows(rows: Any, left_out: frozenset[int]) -> Any:
    """Return rows with another of the batch in the place of each that is left out; None if all of them are.

    Args:
        rows: As a sampler gives them: a list of numbers, or one.
        left_out: Numbers of rows.
    """
    numbers = numbers_of(rows)
    kept = [number for number in numbers if number not in left_out]
    if len(kept) == len(numbers):
        return rows
    if not kept:
        return None
    others = iter(kept * len(numbers))
    return [next(others) if number in left_out else number for number in numbers]
