"""The source of numbers about batches: those that DataLoaders draw and return, looked at in the process that trains.

The first 256 batches are looked at, and 64 of every thousand after them. A look reads a few hundred elements of each
tensor, draws no random number, and holds nothing of the batch but the tokens of the newest.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.data import dataloader

from trackside.capture.statistics.step_statistics import StepStatistics
from trackside.contracts.run.recorded_names import (
    BATCH,
    BATCH_NUMBER,
    BATCH_OF_ONE_ROW,
    BATCH_REPEATED,
    BATCHES_READY,
    DATA_PROCESSOR_WAIT_SECONDS,
    EPOCH,
    EVALUATED_ROWS_OVERLAP,
    EVALUATED_ROWS_TRAINED_ON,
    HELD_OUT_INPUTS_CHANGED,
    HELD_OUT_INPUTS_OWN_STATISTICS,
    HELD_OUT_LABELS_HIGHEST,
    HELD_OUT_LABELS_UNTRAINED,
    ORDER_SEED_HIGH,
    ORDER_SEED_IS_FIRST,
    ORDER_SEED_LOW,
    ROWS_REPEATED,
)
from trackside.frameworks.pytorch.compiling.tracing import compiler_at_work, is_dynamo_compiling, skip_frame, untraced
from trackside.frameworks.pytorch.data.batch_use import BatchUse
from trackside.frameworks.pytorch.data.drawn_rows import DrawnRows
from trackside.frameworks.pytorch.data.evaluated_rows import EvaluatedRows
from trackside.frameworks.pytorch.data.fingerprint import fingerprint
from trackside.frameworks.pytorch.data.held_out_inputs import HeldOutInputs
from trackside.frameworks.pytorch.data.held_out_labels import HeldOutLabels
from trackside.frameworks.pytorch.data.order_seed import OrderSeed, order_seed
from trackside.frameworks.pytorch.data.token_batches import TokenBatches
from trackside.frameworks.pytorch.ground.script_objects import length_of
from trackside.frameworks.shared.adapter import StepHook, Undo
from trackside.frameworks.shared.replaced_methods import ReplacedFunction, replace
from trackside.profiling.phase_clock import CAPTURE, DATA, EVALUATION, OTHER, PhaseClock

LOOKS_AT_FIRST = 256  # batches of a data set
LOOKS_IN_A_ROW, LOOK_INTERVAL = 64, 1024
MOST_DATA_SETS = 8
MOST_REMEMBERED = 4096  # fingerprints of a data set
LONG_FETCH_SECONDS = 5e-4  # from which its wait for a processor is measured: less is no fault, and the look takes 2 us
FEWEST_BATCHES = 4  # of a data set: one of fewer is soon at its start again


class _Seen:
    """The batches of one data set: their count, and the newest occurrence of each fingerprint."""

    def __init__(self, dataset: Any) -> None:
        self.dataset_type = type(dataset)
        self.count = self.passes = 0
        self.counted: weakref.ref[Any] | None = None  # the iterator whose pass was counted as it began, at rest
        self.last: OrderedDict[int, int] = OrderedDict()
        self.drawn = DrawnRows()
        self.use = BatchUse()
        self.order: tuple[Any, OrderSeed | None] = None, None  # the newest pass over the rows, and its seed

    def has(self, number: int, *, within: int) -> bool | None:
        """Return True if the batch with this fingerprint came at most `within` batches ago; None if that is nothing.

        Remember it as the newest.
        """
        if within < 1:
            return None
        before = self.last.pop(number, None)
        self.last[number] = self.count
        if len(self.last) > MOST_REMEMBERED:
            self.last.popitem(last=False)
        return before is not None and self.count - before <= within


class BatchSource:
    """A source of numbers about the batches of each step.

    Attributes:
        loader_begins: Called before each pass with its DataLoader, and the backward passes of the process so far.
        pass_begins: Called before the first batch of a pass. Returns True if that will be seen.
        tokens: The numbers about tokens of batches, and the newest of these.

    Args:
        statistics: The session's statistics.
        is_evaluating: Returns True during an evaluation: of its batches only the rows are looked up.
        protect: Makes a function of ours harmless to the script.
        clock: The clock of the training; fetches are a phase of it.
        loader_met: Called with an iterator whose first batch was fetched for the training, and that batch.
        loader_starts: Called with a DataLoader before its workers are started.
        roots: Returns the trained models, with their names.
        passes: Returns the number of backward passes of the process so far.
        unused: Called at each batch with the number of those right before it that no backward pass used.
    """

    def __init__(
        self,
        statistics: StepStatistics,
        *,
        is_evaluating: Callable[[], bool],
        protect: Callable[[Callable[..., None]], Callable[..., None]],
        clock: PhaseClock,
        loader_met: Callable[[Any, Any], None],
        loader_starts: Callable[[Any], None] = lambda loader: None,
        roots: Callable[[], Iterable[tuple[str, torch.nn.Module]]] = tuple,
        passes: Callable[[], int],
        unused: Callable[[int], None],
    ) -> None:
        self._passes, self._unused = passes, unused
        self._statistics, self._is_evaluating = statistics, is_evaluating
        self._clock, self._loader_met, self._loader_starts = clock, loader_met, loader_starts
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        self._rows = EvaluatedRows()
        self._held_out = HeldOutInputs()
        self._labels = HeldOutLabels()
        self.tokens = TokenBatches(roots)
        self._fetched = untraced(protect(self._look))
        self._drawn = untraced(protect(self._look_at_rows))
        self._pass_begins = untraced(protect(self._look_at_pass))
        self._pass_began = untraced(protect(self._count_pass))
        self._unseen: _Seen | None = None  # the data set of a pass that begins at rest
        self.loader_begins: Callable[[Any, int], None] = lambda loader, passes: None
        self.pass_begins: Callable[[], bool] = lambda: True  # called before a pass; returns True if it is watched

    def install(self) -> Callable[[], None]:
        """Wrap the start of a DataLoader's workers, and of a pass. Return the function that undoes it."""
        undo_starts, undo_passes = self._watch_starts(), self._watch_passes()

        def undo() -> None:
            undo_starts()
            undo_passes()

        return undo

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks in the draw of a batch's rows, and in its fetch."""
        yield ReplacedFunction(dataloader._BaseDataLoaderIter, "_next_index", self._watched_draw)
        yield ReplacedFunction(dataloader._BaseDataLoaderIter, "__next__", self._watched_fetch)

    def rest_ended(self, steps: int) -> None:
        """Forget the batches before a rest: how many came since is not known."""
        for seen in self._seen.values():
            seen.last.clear()
            seen.use.forget()
            seen.drawn.leave_out()

    def _watch_passes(self) -> Undo:
        source, begins, began = self, self._pass_begins, self._pass_began

        def wrapped(original: Any) -> Any:
            @functools.wraps(original)
            def __iter__(self: Any) -> Any:  # noqa: N807 - it replaces one
                begins(self)  # before workers draw ahead
                iterator = original(self)
                if source._unseen is not None:
                    began(iterator)
                return iterator

            skip_frame(__iter__)
            return __iter__

        return replace([(dataloader.DataLoader, "__iter__")], wrapped)

    def _look_at_pass(self, loader: Any) -> None:
        """Look for a pass that begins at rest, where its first batch will not be seen."""
        self._unseen = None
        if torch.utils.data.get_worker_info() is not None:
            return
        self.loader_begins(loader, self._passes())
        seen = self._seen.get(id(loader.dataset))
        if seen is None:
            return
        seen.counted = None
        if torch.is_grad_enabled() and not self._is_evaluating() and not self.pass_begins():
            self._unseen = seen

    def _count_pass(self, iterator: Any) -> None:
        seen, self._unseen = self._unseen, None
        if seen is not None:
            seen.passes += 1
            seen.counted = weakref.ref(iterator)

    def _watch_starts(self) -> Callable[[], None]:
        """Time the start of a DataLoader's workers as a wait for data. The end of workers is part of the last fetch."""
        kind = dataloader._MultiProcessingDataLoaderIter
        original = kind.__init__
        statistics, clock, starts = self._statistics, self._clock, self._loader_starts

        @functools.wraps(original)
        def __init__(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: N807 - it replaces one
            if not statistics.is_on or is_dynamo_compiling() or compiler_at_work() is not None:
                return original(self, *arguments, **named)
            is_training = torch.is_grad_enabled()
            starts(arguments[0] if arguments else named.get("loader"))
            before = clock.enter(DATA if is_training else EVALUATION)
            try:
                return original(self, *arguments, **named)
            finally:
                if is_training:
                    clock.leave(before)

        skip_frame(__init__)
        setattr(kind, "__init__", __init__)  # noqa: B010 - as for fetches

        def undo() -> None:
            if kind.__init__ is __init__:  # as for fetches
                setattr(kind, "__init__", original)  # noqa: B010 - as above

        return undo

    def _watched_draw(self, original: Any) -> Any:
        statistics, drawn = self._statistics, self._drawn

        @functools.wraps(original)
        def _next_index(self: Any) -> Any:
            try:
                rows = original(self)
            except StopIteration:
                if statistics.is_on:
                    drawn(self, None)
                raise
            if statistics.is_on:
                drawn(self, rows)
            return rows

        skip_frame(_next_index)
        return _next_index

    def _watched_fetch(self, original: Any) -> Any:
        statistics, fetched, clock = self._statistics, self._fetched, self._clock

        @functools.wraps(original)
        def __next__(self: Any) -> Any:  # noqa: N807 - it replaces one
            if not statistics.is_on or is_dynamo_compiling() or compiler_at_work() is not None:
                return original(self)
            is_training = torch.is_grad_enabled()
            before = clock.enter(DATA if is_training else EVALUATION)
            ready = _batches_ready(self)
            try:
                batch = original(self)
            except BaseException:  # the end of the data, too, and that of an evaluation
                clock.leave(before if is_training or before < 0 else OTHER)
                raise
            clock.enter(CAPTURE)
            fetched(self, batch, ready)
            if is_training:
                clock.leave(before)
            else:  # what follows is the evaluation's, until the training goes on
                clock.enter(EVALUATION)
            return batch

        skip_frame(__next__)
        return __next__

    def _look(self, iterator: Any, batch: Any, ready: float) -> None:
        if torch.utils.data.get_worker_info() is not None:
            return
        if self._is_evaluating():
            self._rows.evaluate(iterator, batch)
            self._held_out.evaluate(iterator, batch)
            self._labels.evaluate(iterator, batch)
        elif torch.is_grad_enabled():  # else of no model in eval mode: statistics of a normalisation, or a memory
            self._look_at_training(iterator, batch, ready)

    def _look_at_training(self, iterator: Any, batch: Any, ready: float) -> None:
        seen = self._of(iterator._dataset)
        seen.count += 1
        self._unused(seen.use.drawn(self._passes(), is_first=iterator._num_yielded == 1))
        if iterator._num_yielded == 1 or not seen.passes:  # its first one may have been taken for an evaluation's
            if seen.counted is None or seen.counted() is not iterator:
                seen.passes += 1
            seen.counted = None
            self._loader_met(iterator, batch)
            self._add_order(seen.order[1])
        added = self._statistics.recorder.numbers.added
        in_fetches = self._clock.seconds[DATA]
        if in_fetches >= LONG_FETCH_SECONDS:
            waited = self._clock.waits_so_far()  # since the end of the step before: fetches mostly follow it at once
            if waited is not None:
                added[DATA_PROCESSOR_WAIT_SECONDS, "mean"] = min(waited, in_fetches)
        added[BATCH_NUMBER, "mean"] = float(iterator._num_yielded - 1)
        added[EPOCH, "mean"] = float(seen.passes - 1)
        if ready >= 0:
            added[BATCHES_READY, "mean"] = ready
        self.tokens.look(batch, added)
        if self._rows.is_waiting:
            self._add_evaluated(added, iterator)
        if seen.count > LOOKS_AT_FIRST and seen.count % LOOK_INTERVAL >= LOOKS_IN_A_ROW:
            return
        added[ROWS_REPEATED, "mean"] = seen.drawn.repeated_share
        if seen.passes == 1:  # the rows of later passes are the same, or changed anew
            self._rows.train(iterator, batch)
            self._labels.remember(iterator, batch)
        found = fingerprint(batch)
        if found is not None:
            added[BATCH, "mean"] = float(found.number)
            if found.rows > 1:
                added[BATCH_OF_ONE_ROW, "mean"] = float(found.is_one_row)
                within = 0 if seen.drawn.is_grouped else _distance(iterator)  # answers are trained on several times
                repeated = seen.has(found.number, within=within)
                if repeated is not None:
                    added[BATCH_REPEATED, "mean"] = float(repeated)

    def _add_evaluated(self, added: Any, iterator: Any) -> None:
        """Add the numbers of the evaluation that has ended."""
        labels = self._labels.take(besides=[weakref.ref(iterator), *self._rows.of_training])
        rows, held_out = self._rows.take(besides=iterator), self._held_out.take()
        if rows is not None:
            added[EVALUATED_ROWS_TRAINED_ON, "mean"] = rows.share
        if rows is not None and rows.overlap is not None:
            added[EVALUATED_ROWS_OVERLAP, "mean"] = rows.overlap
        if labels is not None:
            added[HELD_OUT_LABELS_UNTRAINED, "mean"] = labels.share
            added[HELD_OUT_LABELS_HIGHEST, "mean"] = float(labels.highest)
        if held_out.changed is not None:
            added[HELD_OUT_INPUTS_CHANGED, "mean"] = held_out.changed
        if held_out.own_statistics is not None and rows is not None and not rows.share:
            added[HELD_OUT_INPUTS_OWN_STATISTICS, "mean"] = held_out.own_statistics

    def _look_at_rows(self, iterator: Any, rows: Any) -> None:
        """Take the rows of the next batch; None: the pass is at its end."""
        if iterator._dataset_kind == dataloader._DatasetKind.Iterable or not torch.is_grad_enabled():
            return
        if torch.utils.data.get_worker_info() is not None or self._is_evaluating():
            return
        meter = self._statistics.meter
        is_metered = meter.is_on
        if is_metered:
            meter.enter()
        seen = self._of(iterator._dataset)
        drawn = seen.drawn
        if rows is not None and not iterator._num_yielded and seen.order[0] is not iterator._sampler_iter:
            seen.order = iterator._sampler_iter, order_seed(iterator)
        if rows is None:
            drawn.end(iterator)
        else:
            drawn.draw(iterator, rows)
        if is_metered:
            meter.leave()

    def _add_order(self, found: OrderSeed | None) -> None:
        if found is not None:
            added = self._statistics.recorder.numbers.added
            high, low = divmod(found.seed % 2**64, 2**32)
            added[ORDER_SEED_HIGH, "mean"], added[ORDER_SEED_LOW, "mean"] = float(high), float(low)
            added[ORDER_SEED_IS_FIRST, "mean"] = float(found.is_first)

    def _of(self, dataset: Any) -> _Seen:
        seen = self._seen.get(id(dataset))
        if seen is None or seen.dataset_type is not type(dataset):
            seen = self._seen[id(dataset)] = _Seen(dataset)
            if len(self._seen) > MOST_DATA_SETS:
                self._seen.popitem(last=False)
        return seen


def _batches_ready(iterator: Any) -> float:
    """Return the number of batches that workers have made and the script has not asked for; -1 if that is unknown."""
    if not iterator._num_workers:
        return -1.0
    try:
        early = len(iterator._task_info) - iterator._tasks_outstanding  # they came before their turn
        return float(iterator._data_queue.qsize() + early)
    except Exception:  # noqa: BLE001 - macOS cannot count, and another library's iterator has no such queue
        return -1.0


def _distance(iterator: Any) -> int:
    """Return the number of batches within which no batch may come again; 0 if that is unknown.

    It is less than half of the data set. Of a data set without a length it is the number of other workers, which would
    all return the same if it did not divide itself among them.
    """
    if iterator._dataset_kind == dataloader._DatasetKind.Iterable:
        return int(iterator._num_workers) - 1
    batches = length_of(iterator._index_sampler)
    return (batches - 1) // 2 if batches is not None and batches >= FEWEST_BATCHES else 0
