"""Statistics of tensors as columns over steps: recorded numbers first, else numbers of saved tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.storage.store import Store
from trackside.trial.completeness import Completeness
from trackside.trial.question import Question, RecordedQuestion, SavedQuestion
from trackside.trial.recorded.recorded import Recorded
from trackside.trial.steps.record_reader import RecordReader
from trackside.trial.steps.saved_tensors import REDUCTION_MARK
from trackside.trial.steps.selection import Selection, StepRange
from trackside.trial.steps.step_index import StepIndex
from trackside.trial.tensors.buckets import Buckets, BucketSums, Places
from trackside.trial.tensors.statistics import MAGNITUDES, RECORDED_ONLY, REDUCTIONS, STATISTICS
from trackside.trial.tensors.step_values import StepTables
from trackside.trial.tensors.tensor_names import TensorNames
from trackside.trial.tensors.tensors import PLACES, Neighbourhood, Reading, Sources, TensorStatistics
from trackside.trial.window import MOST_IN_PANEL, Column, Panel, StepValues, newest_values

StepsAndValues = tuple[NDArray[np.int64], NDArray[np.float64]]


class TensorColumns:
    """The columns for rules and users. A question over all steps is kept, and answered from the last step read on."""

    def __init__(
        self,
        store: Store,
        *,
        index: StepIndex,
        reader: RecordReader,
        recorded: Recorded,
        names: TensorNames,
        completeness: Completeness,
    ) -> None:
        self._recorded, self._names, self._completeness = recorded, names, completeness
        self._index, self._replaced = index, 0
        self._sources_of_statistics = store, index, reader
        self._statistics = TensorStatistics(store, index, reader, neighbours=self._neighbours)
        self._questions: dict[tuple[str, str, str | None], Question] = {}
        self._neighbourhoods: dict[tuple[str, str], Neighbourhood] = {}  # by collection and statistic
        self._names_version: object = None  # of the questions and the neighbourhoods
        self._step_values = StepTables(self._columns_beyond, last_step=completeness.last_step)

    def forget_old(self) -> None:
        """Drop the questions if the set of names changed, for other records may answer them now.

        Drop what was read, too, if a process that was started again has written a step otherwise.
        """
        if self._replaced != self._index.replaced:
            self._replaced = self._index.replaced
            self._statistics = TensorStatistics(*self._sources_of_statistics, neighbours=self._neighbours)
            self._names_version = None
        if self._names.version != self._names_version:
            self._questions.clear()
            self._neighbourhoods.clear()

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Return one column per worker over every saved or recorded step <= `last_step`."""
        return self._question(tensor, statistic, mode).columns(last_step)

    def pieces(
        self, tensors: Sequence[str], statistic: str, *, first: int, last: int, mode: str | None
    ) -> Iterator[tuple[str, Mapping[str, StepsAndValues]]]:
        """Yield steps and values of many tensors a piece of the run at a time: (worker, numbers by tensor).

        A run of a million steps is never in memory as a whole, and nothing of it is kept. The steps of a tensor ascend
        within a piece, and the pieces of a tensor and worker follow one another. Tensors with saved values at other
        steps come alone, after the others, as one piece each.

        Args:
            tensors: Names.
            statistic: The statistic.
            first: First step to read; some steps before it may come, too.
            last: Last step; later ones are left out.
            mode: Mode of the steps; None for all.
        """
        last = min(last, self._completeness.last_step())
        alone: list[str] = []
        for tensor in tensors:
            question = self._question(tensor, statistic, mode)
            if isinstance(question, RecordedQuestion) and question.is_recorded_alone(last):
                alone.append(tensor)
            self.trim()
        found, whole = self._recorded.pieces(alone, statistic, first=first, last=last, mode=mode)
        for worker, numbers in found:
            cut = {tensor: _up_to(*both, last) for (tensor, _), both in numbers.items()}
            inside = {tensor: both for tensor, both in cut.items() if len(both[0])}
            if inside:
                yield worker, inside
        others = {*tensors} - {*alone} | {*whole}
        for tensor in tensors:
            if tensor in others:
                for column in self.columns(tensor, statistic, last_step=last, mode=mode):
                    yield column.worker, {tensor: (column.steps, column.values)}
                self.trim()

    def in_buckets(
        self, tensors: Sequence[str], statistic: str, edges: NDArray[np.int64], *, mode: str | None
    ) -> dict[str, dict[str, Buckets]]:
        """Return the numbers of many tensors in buckets, by tensor and worker; see `pieces`.

        Args:
            tensors: Names.
            statistic: The statistic.
            edges: As `edges_of` returns them.
            mode: Mode of the steps; None for all.
        """
        found: dict[str, dict[str, BucketSums]] = {}
        first, last = int(edges[0]), int(edges[-1]) - 1
        for worker, numbers in self.pieces(tensors, statistic, first=first, last=last, mode=mode):
            places = {id(steps): Places.of(steps, edges) for steps in {id(s): s for s, _ in numbers.values()}.values()}
            for tensor, (steps, values) in numbers.items():
                of_tensor = found.setdefault(tensor, {})
                if worker not in of_tensor:
                    of_tensor[worker] = BucketSums(edges)
                of_tensor[worker].add_at(places[id(steps)], values)
        return {
            tensor: {worker: buckets for worker, sums in sorted(some.items()) if len((buckets := sums.buckets()).first)}
            for tensor, some in found.items()
        }

    def trim(self) -> None:
        """Drop the columns that are kept, if they take much memory. The next question reads them again."""
        if self._recorded.trim():
            self._questions.clear()

    def selected(self, tensor: str, statistic: str, selection: Selection) -> tuple[Column, ...]:
        """Return `columns` over the selected complete steps; no other step is read.

        Workers without a number are left out.

        Raises:
            ConfigurationError: The statistic is unknown.
        """
        last, end = self._completeness.last_step(), selection.steps.end
        last_step = last if end is None else min(last, end - 1)
        everything = self._question(tensor, statistic, selection.mode)
        is_all = selection.steps == StepRange() and selection.worker is None
        question = everything if is_all or everything.is_read(last_step) else self._narrow(tensor, statistic, selection)
        columns = question.columns(last_step)
        wanted = (column for column in columns if selection.worker in {None, column.worker})
        return tuple(c for column in wanted if (c := _within(column, selection.steps)) is not None)

    def fullest(self, tensor: str, selection: Selection) -> str:
        """Return the statistic of the tensor's values with a number at most selected steps; `MAGNITUDES[0]` on a tie.

        A loss and a learning rate are recorded as `mean` at every step, a gradient as `l2`.
        """
        best = MAGNITUDES[0]
        most = sum(len(column.steps) for column in self.selected(tensor, best, selection))
        of_tensor = self._recorded.tensors.get(tensor, ())
        for statistic in MAGNITUDES[1:]:
            if statistic not in of_tensor:
                continue
            columns = self._recorded.columns(tensor, statistic, selection.mode).values()
            wanted = [column for column in columns if selection.worker in {None, column.worker}]
            count = sum(len(part.steps) for c in wanted if (part := _within(c, selection.steps)) is not None)
            if count > most:
                best, most = statistic, count
        return best

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Return the values of `columns` of each of the tensors at `step`."""
        moment = self._completeness.version, self._recorded.version
        return self._step_values.at(tuple(tensors), statistic, mode, step=step, moment=moment)

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Return the newest `last` values of these tensors up to `last_step`."""
        if last > MOST_IN_PANEL:
            columns_of = partial(self.columns, statistic=statistic, last_step=last_step, mode=mode)
            return newest_values(tensors, columns_of, last=last)
        moment = self._completeness.version, self._recorded.version
        return self._step_values.newest(tuple(tensors), statistic, mode, last=last, last_step=last_step, moment=moment)

    def recorded_statistics(self) -> Mapping[str, frozenset[str]]:
        """Return the recorded statistics of each tensor, by its name; a tensor that was only saved has none."""
        return self._recorded.tensors

    def recorded_names(self, selection: Selection) -> Iterable[str]:
        """Return the tensors with recorded statistics at the selected steps."""
        for tensor, statistics in self._recorded.tensors.items():
            columns = (self._recorded.columns(tensor, name, selection.mode).values() for name in sorted(statistics))
            if any(
                _within(c, selection.steps) for some in columns for c in some if selection.worker in {None, c.worker}
            ):
                yield tensor

    def _neighbours(self, tensor: str, statistic: str) -> Iterable[Neighbourhood]:
        """Return the saved tensors of each collection of the tensor, with the records that would answer for them.

        The same arguments return the same objects while the set of names is the same.
        """
        return [self._neighbourhood(name, statistic) for name in self._names.collections_of(tensor)]

    def _neighbourhood(self, collection: str, statistic: str) -> Neighbourhood:
        found = self._neighbourhoods.get((collection, statistic))
        if found is None:
            saved = (name for name in self._names.members(collection) if name not in self._recorded.tensors)
            found = Neighbourhood(tuple((name, self._sources(name, statistic)) for name in saved))
            self._neighbourhoods[collection, statistic] = found
        return found

    def _question(self, tensor: str, statistic: str, mode: str | None) -> Question:
        """Return the question over all steps. The same arguments return the same object."""
        question = self._questions.get((tensor, statistic, mode))
        if question is None:
            self._names.all()  # reads the names of recorded tensors at the first question
            self.forget_old()
            self._names_version = self._names.version
            question = self._question_about(self._statistics.everything, tensor, statistic, mode)
            self._questions[tensor, statistic, mode] = question
        return question

    def _columns_beyond(self, tensor: str, statistic: str, mode: str | None, last_step: int) -> tuple[Column, ...]:
        return self._question(tensor, statistic, mode).columns_beyond(last_step)

    def _narrow(self, tensor: str, statistic: str, selection: Selection) -> Question:
        return self._question_about(self._statistics.selected(selection), tensor, statistic, selection.mode)

    def _question_about(self, reading: Reading, tensor: str, statistic: str, mode: str | None) -> Question:
        recorded = self._recorded.tensors
        is_recorded = statistic in recorded.get(tensor, ())
        is_known_word = statistic in STATISTICS or statistic in RECORDED_ONLY
        if not is_known_word and not any(statistic in names for names in recorded.values()):
            known = {*STATISTICS, *RECORDED_ONLY, *(name for names in recorded.values() for name in names)}
            problem = Problem("statistic", f"Unknown statistic {statistic!r}.", did_you_mean(statistic, known))
            raise ConfigurationError([problem], subject="A question to a window")
        saved: SavedQuestion | None = None
        if statistic in STATISTICS:
            is_known = partial(self._recorded.holds, tensor, statistic) if is_recorded else None
            follower = reading.follower(tensor, statistic, self._sources(tensor, statistic), is_known=is_known)
            saved = SavedQuestion(reading, follower, statistic, PLACES[statistic], mode)
            if not is_recorded:
                return saved
        return RecordedQuestion(self._recorded, saved, tensor=tensor, statistic=statistic, mode=mode)

    def _sources(self, tensor: str, statistic: str) -> Sources:
        reductions = self._names.reductions()
        if not reductions:
            return (tensor,)
        # Old frameworks' hooks strip ":0" from the tensor's name when they save its reductions.
        bases = dict.fromkeys((tensor, re.sub(r":\d+", "", tensor)))
        spelled = (f"{REDUCTION_MARK}{word}/{base}" for word in REDUCTIONS.get(statistic, ()) for base in bases)
        return (*(name for name in spelled if name in reductions), tensor)


def _up_to(steps: NDArray[np.int64], values: NDArray[np.float64], last: int) -> StepsAndValues:
    if len(steps) and steps[-1] <= last:
        return steps, values
    count = int(np.searchsorted(steps, last, side="right"))
    return steps[:count], values[:count]


def _within(column: Column, steps: StepRange) -> Column | None:
    """Return the part of the column within the steps; None if it is empty."""
    if steps == StepRange():
        return column
    inside = (column.steps >= steps.first) & ((column.steps - steps.first) % steps.stride == 0)
    if steps.end is not None:
        inside &= column.steps < steps.end
    if not inside.any():
        return None
    return Column(column.tensor, column.worker, column.steps[inside], column.values[inside])
