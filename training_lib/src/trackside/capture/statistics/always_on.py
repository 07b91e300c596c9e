"""The always-on statistics of a training: the tiers that each step takes, and its numbers as rows. Knows no framework.

    statistics = AlwaysOn(request.statistics)         # then, at every step, from an adapter:
    statistics.add_loss("CrossEntropyLoss", 0.7)
    if statistics.takes_norms: ...                    # was decided when the last step ended
    statistics.add(Reading(watched, rates=Here(rates), norms=Here(norms)))
    statistics.end_step(step=7, mode="TRAIN", mode_step=7)

- Cheap tier: losses and learning rates at every step, gradient norms at every step that the budget allows.
- Dear tier (weights and updates): at each of the first steps, again after anything unusual, else as the budget allows.

A number may still be on its way from a device when its step ends. Its row is recorded once the number has arrived.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from trackside.capture.ground.irregular import is_place
from trackside.capture.ground.one_at_a_time import OneAtATime
from trackside.capture.ground.values import Values
from trackside.capture.statistics.budget import SAMPLE_INTERVAL, Intervals, OverheadBudget, ThreadMeter
from trackside.capture.statistics.statistic_rows import Marks, Reading, StatisticRows
from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.capture.statistics.step_numbers import NumberSampler, StepNumbers
from trackside.capture.steps.loss_parts import MOST_LOSSES_A_STEP, OpenParts
from trackside.capture.steps.step_engine import TRAIN
from trackside.contracts.capture_request import StatisticsRequest
from trackside.contracts.run.recorded_names import DEAR_INTERVAL, NORMS_INTERVAL, UPDATE_SIZE

MOST_WAITING = 256  # steps with numbers on their way, or that ended before the run began

# So often the training's thread makes rows, of all steps since: code that runs cold costs three times as much. Where
# the run is stored, the writer's thread mostly makes them before, each second (`recorded_through`).
RECORD_SECONDS = 1.0
MOST_AT_ONCE = 64
RECORDER_SECONDS = 0.05  # how long the writer thread waits for the training thread to have made its rows

_PLAIN_NUMBERS = {float}
UPDATE_KEY = (UPDATE_SIZE, "mean")
Losses = list[tuple[str, "float | Values"]]
_JUST_AFTER = 1e-4  # seconds by which a row is younger than the one it corrects


class _Step(NamedTuple):
    """A step that has ended."""

    marks: Marks
    losses: Losses
    readings: list[Reading]
    overhead: float | None
    changes: Mapping[tuple[str, str], float]
    numbers: Mapping[tuple[str, str], float | Values]
    is_judged: bool = False  # whether it was unusual

    def is_here(self) -> bool:
        if not self._has_plain_numbers():
            for number in (*[loss for _, loss in self.losses], *self.numbers.values()):
                if not isinstance(number, float) and not number.is_here():
                    return False
        return all(map(Reading.is_here, self.readings))

    def _has_plain_numbers(self) -> bool:
        """Return True if no loss and no number can be on its way, by one look at all of them."""
        return {*map(type, self.numbers.values()), *[type(loss) for _, loss in self.losses]} <= _PLAIN_NUMBERS

    @property
    def needs_no_judging(self) -> bool:
        """True if the step was checked for unusual values, or needs no check."""
        return self.is_judged or self.marks["mode"] != TRAIN


class Moment(NamedTuple):
    """The end of a step that is recorded later, together with others.

    - `wall_time`: when it ended, in seconds since the epoch
    - `overhead`: our time as a share of the steps' own; None if it is not known
    """

    wall_time: float
    overhead: float | None


class AlwaysOn:
    """The statistics of one training: collects the numbers of each step and records them as rows.

    Runs on the training thread. Nothing is stored before `connect`. `clock` counts seconds since the epoch; the budget
    has a clock of its own.

    Attributes:
        budget: The share of a step's time that may be spent.
        numbers: The numbers of the open step.
        losses: The losses of the open step of each mode: name and value.
        parts: Those of them that are put together of parts.
        steps: Number of training steps of this process that have ended and are judged.
        waiting: Ended steps that rows are to be made of, the oldest first.
        newest: The newest training step that has ended.
        takes_norms, takes_dear, takes_update: The tiers that the open step takes. The size of its update is recorded
            if the step before took it too, and so shows the change of one step.
    """

    def __init__(
        self,
        request: StatisticsRequest,
        *,
        budget: OverheadBudget | None = None,
        meter: ThreadMeter | None = None,
        clock: Callable[[], float] = time.time,
        samplers: Sequence[NumberSampler] = (),
    ) -> None:
        densest = Intervals(1, request.dear_interval)
        self.budget = budget or OverheadBudget(request.budget, densest=densest, meter=meter)
        self.clock = clock
        self._rows: StatisticRows | None = None
        self.losses: dict[str, Losses] = {}
        self.parts = OpenParts(self.losses)
        self._settled: dict[str, int] = {}
        self._readings: list[Reading] = []
        self.numbers = StepNumbers(samplers)
        self.waiting: deque[_Step] = deque()
        self._recorded_at = 0.0
        self._recording = OneAtATime()
        self.steps = self._ended_alone = 0
        self._tiers = TierSchedule(request)
        self._loss_jumps, self._norm_jumps = Jumps(), Jumps()
        self._recorded = self.budget.intervals
        self.newest: _Step | None = None
        self.takes_norms = self.takes_dear = self.takes_update = True  # by the open step
        self._decide()

    def connect(self, log: StatisticsLog) -> None:
        """Set the log of the rows. Steps that ended before wait for it."""
        self._rows = StatisticRows(log)

    def add_loss(self, loss_name: str, value: float | Values, *, mode: str = TRAIN) -> None:
        """Add a loss to the open step of a mode. The k-th of one name is recorded as `<loss_name>_output_<k>`."""
        losses = self.losses.setdefault(mode, [])
        if len(losses) < MOST_LOSSES_A_STEP:
            losses.append((loss_name, value))

    def settle(self, mode: str = TRAIN) -> None:
        """Mark the losses added so far as the open step's own: an optimizer has stepped on them."""
        self._settled[mode] = len(self.losses.get(mode, ()))
        self.parts.settle()

    def drop_unsettled(self, mode: str = TRAIN) -> None:
        """Drop the losses added since the last `settle`: no optimizer steps on them."""
        del self.losses.get(mode, [])[self._settled.get(mode, 0) :]

    def add(self, reading: Reading) -> None:
        """Add the numbers of an optimizer's step to the open step."""
        self._readings.append(reading)

    def end_step(
        self,
        *,
        step: int,
        mode: str = TRAIN,
        mode_step: int,
        keep_unsettled: bool = False,
        ended: Moment | None = None,
    ) -> None:
        """End the open step of a mode, under the numbers of the engine.

        With `keep_unsettled`, the losses since the last `settle` belong to the next step. `ended` is given for a step
        that is recorded later than it ended; `OverheadBudget.together` measures those.
        """
        losses = self.losses.get(mode) or []
        if keep_unsettled or self._settled:
            losses = _taken(self.losses, mode, self._settled.pop(mode, 0), keep_unsettled=keep_unsettled)
        elif losses:
            self.losses[mode] = []
        wall_time = self.clock() if ended is None else ended.wall_time
        marks = Marks(step=step, mode=mode, mode_step=mode_step, wall_time=wall_time)
        if mode != TRAIN:
            if losses:
                self._keep(_Step(marks, losses, [], None, {}, {}), now=marks["wall_time"])
            return
        budget = self.budget
        overhead = budget.end_step() if ended is None else ended.overhead
        readings, self._readings = self._readings, []
        numbers = self.numbers.sample()
        if not self._records_update:
            numbers.pop(UPDATE_KEY, None)
        changes = _changes(self._recorded, budget.intervals) if budget.intervals is not self._recorded else {}
        self._recorded = budget.intervals
        is_known = not losses or isinstance(losses[0][1], float)
        norm: float | None = None
        for reading in readings:
            if reading.total is not None:
                norm = reading.total if norm is None else math.hypot(norm, reading.total)
            elif reading.norms is not None:
                is_known = False
        whole = self.newest = _Step(marks, losses, readings, overhead, changes, numbers, is_known)
        self.steps += 1
        if is_known and (norm is not None or len(losses) != 1):
            self._judge(losses, norm)
        elif is_known and self._loss_jumps.sees(losses[0][1]):  # type: ignore[arg-type] # it is known
            self._tiers.densify(self.steps, dear_interval=budget.intervals.dear)
        self._decide()
        self._ended_alone += 1  # a multiple of the steps would never meet those after a regular one of these
        if ended is None:
            budget.begin_step(is_sampled=self.takes_dear or is_place(self._ended_alone, SAMPLE_INTERVAL))
        self._keep(whole, now=marks["wall_time"])

    @property
    def is_dense(self) -> bool:
        """True while each step is looked at closely: at the first ones, and after anything unusual."""
        return self.steps < self._tiers.dense_until

    def begin_anew(self, numbers: Mapping[tuple[str, str], float]) -> None:
        """Begin the open training step anew, from this moment on: drop all of it so far.

        Args:
            numbers: Numbers of the step, by name and statistic.
        """
        self.losses.pop(TRAIN, None)
        self._settled.pop(TRAIN, None)
        self.parts.settle()
        self._readings, self.numbers.added = [], dict(numbers)
        self.budget.pause()
        self.budget.begin_step(is_sampled=True)

    def note(self, values: Mapping[tuple[str, str], float], *, wait_seconds: float = 0.0) -> None:
        """Record numbers beside those of the newest training step, which has ended. Nothing waits for a step to come.

        Lost if another thread records for longer than `wait_seconds`: they come again with the next note.
        """
        with self._recording.taken(wait_seconds) as is_sole:
            if is_sole and self._rows is not None and self.newest is not None:
                self._record_all(self._rows, self._arrived())
                self._rows.record_mixed(values, {**self.newest.marks, "wall_time": self.clock()})

    def drain(self, *, wait_seconds: float = 0.0) -> None:
        """Record the ended steps that have all their numbers.

        Wait at most `wait_seconds` for another thread that records.

        Does nothing in a signal handler that interrupts this method.
        """
        with self._recording.taken(wait_seconds) as is_sole:
            if is_sole and self._rows is not None:
                self._record_all(self._rows, self._arrived())

    def recorded_through(self, step: int) -> int | None:
        """Return the last step, up to `step`, with all its rows in the log; None if another thread is recording.

        `step` must have ended before the call. For other threads than the training's: it records the steps that the
        training has left behind, as before a pause.
        """
        with self._recording.taken(RECORDER_SECONDS) as is_sole:
            if not is_sole or self._rows is None:
                return None
            # What an unusual step changes is the training thread's: it takes those that are not judged yet.
            self._record_all(self._rows, self._arrived(only_judged=True))
            return min(step, self.waiting[0].marks["step"] - 1) if self.waiting else step

    def _record_all(self, rows: StatisticRows, arrived: Iterable[_Step]) -> None:
        for step in arrived:
            self._record(rows, step)

    def _arrived(self, *, only_judged: bool = False) -> Iterator[_Step]:
        with suppress(IndexError):  # there is no more; or the training thread has just dropped the oldest
            while self.waiting[0].is_here() and (self.waiting[0].needs_no_judging or not only_judged):
                yield self.waiting.popleft()

    def _decide(self) -> None:
        intervals, steps = self.budget.intervals, self.steps
        self.takes_dear = steps < self._tiers.dense_until or is_place(steps, intervals.dear)
        self.takes_norms = self.takes_dear or is_place(steps, intervals.norms)
        self._records_update = is_place(steps, intervals.updates)
        self.takes_update = self._records_update or is_place(steps + 1, intervals.updates)  # what the next one changes

    def _keep(self, step: _Step, *, now: float) -> None:
        self.waiting.append(step)
        if self._is_record_due(now):
            started = self.budget.thread_seconds()
            self._record_if_due(now)
            self.budget.spend_on_rows(started)

    def _is_record_due(self, now: float) -> bool:
        return not 0 <= now - self._recorded_at < RECORD_SECONDS or len(self.waiting) >= MOST_AT_ONCE

    def _record_if_due(self, now: float) -> None:
        """Make rows if it is time to. Drop the oldest steps where their numbers do not come."""
        if self._is_record_due(now):
            self._recorded_at = now
            self.drain()
        while len(self.waiting) > MOST_WAITING:
            with suppress(IndexError):  # the writer thread has just taken it
                self.waiting.popleft()

    def _record(self, rows: StatisticRows, step: _Step) -> None:
        losses = [(name, loss if isinstance(loss, float) else float(loss.get()[0])) for name, loss in step.losses]
        if step.marks["mode"] != TRAIN:
            rows.record_losses(losses, step.marks)
            return
        norm = rows.record_step(losses, step.readings, step.overhead, step.marks)
        for reading in step.readings:
            if reading.counts:
                later = step.marks["wall_time"] + _JUST_AFTER
                rows.record_mixed(reading.counts, {**step.marks, "wall_time": later})
        if step.numbers:
            rows.record_numbers(step.numbers, step.marks)
        if step.changes:
            rows.record_mixed(step.changes, step.marks)
        if not step.is_judged:
            self._judge(losses, norm)
            self._decide()

    def _judge(self, losses: Sequence[tuple[str, float | Values]], norm: float | None) -> None:
        """Check a step for unusual values, by its first loss and the norm of its gradients."""
        first = losses[0][1] if losses else None
        is_unusual = isinstance(first, float) and self._loss_jumps.sees(first)
        is_unusual |= norm is not None and self._norm_jumps.sees(norm)
        if is_unusual:
            self._tiers.densify(self.steps, dear_interval=self.budget.intervals.dear)


def _taken(of_modes: dict[str, Losses], mode: str, settled: int, *, keep_unsettled: bool) -> Losses:
    """Take the losses of a mode, of which the last ones stay if they are unsettled and to be kept."""
    losses = of_modes.get(mode, [])
    end = settled if keep_unsettled else len(losses)
    if losses:
        of_modes[mode] = losses[end:]
    return losses[:end]


def _changes(before: Intervals, now: Intervals) -> Mapping[tuple[str, str], float]:
    """Return the numbers that record new intervals; none if they are the same."""
    if now == before:
        return {}
    return {(NORMS_INTERVAL, "mean"): float(now.norms), (DEAR_INTERVAL, "mean"): float(now.dear)}


class TierSchedule:
    """The steps at which the dear tier is taken every time: the first ones, and those after anything unusual."""

    def __init__(self, request: StatisticsRequest) -> None:
        self.dense_until = request.dense_start_steps  # the dear tier is taken at each step before
        self._burst = request.dense_after_steps
        self._next_burst = 0

    def densify(self, step: int, *, dear_interval: int) -> None:
        """Take the dear tier at a few steps from `step` on. Such bursts at most double the cost of the dear tier."""
        if step >= self._next_burst:
            self.dense_until = max(self.dense_until, step + self._burst)
            self._next_burst = step + self._burst * dear_interval


_WEIGHT = 0.05  # of the newest number in the averages


class Jumps:
    """A detector of numbers far above the ones before, and of the first that is not finite."""

    _FEWEST = 20  # numbers, before any is unusual
    _DEVIATIONS = 8.0

    def __init__(self) -> None:
        self._seen = 0
        self._mean = self._deviation = 0.0
        self._was_finite = True

    def sees(self, value: float) -> bool:
        """Return True if `value` is unusual. Add it to the usual values, unless it is NaN or infinite."""
        return bool(self.places((value,)))

    def places(self, values: Sequence[float]) -> list[int]:
        """Return the places of the unusual ones among values that follow each other; see `sees`."""
        found = []
        seen, mean, deviation, was_finite = self._seen, self._mean, self._deviation, self._was_finite
        for place, value in enumerate(values):
            if not math.isfinite(value):
                if was_finite:
                    found.append(place)
                was_finite = False
                continue
            was_finite = True
            above = value - mean
            if seen >= self._FEWEST and above > self._DEVIATIONS * deviation and above > abs(mean):
                found.append(place)
            weight = _WEIGHT if seen > self._FEWEST else max(_WEIGHT, 1 / (seen + 1))
            if seen:
                deviation += weight * (abs(above) - deviation)
            mean += weight * above
            seen += 1
        self._seen, self._mean, self._deviation, self._was_finite = seen, mean, deviation, was_finite
        return found
