"""A run at one moment, as `trackside watch` and `trackside compare` show it: its curves, its pace, its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.contracts.run.learning import Learning
from trackside.contracts.run.recorded_names import RESTED_STEPS
from trackside.contracts.run_layout import RULE_REQUEST_KEY, TENSORS, VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Verdict
from trackside.evaluation.results.run_learning import read_learning
from trackside.evaluation.sinks.json_lines import MOST_VERDICTS_BYTES
from trackside.runs.capture_check import rule_progress
from trackside.runs.judged_part import JudgedPart, judged_part
from trackside.runs.recorded_run import requested_rules, state_of
from trackside.runs.rule_state import rule_statuses
from trackside.runs.run_folder import RunState
from trackside.runs.verdict_feed import read_verdicts
from trackside.situation.losses.losses import TRAINING_MODES, parts_of_sums
from trackside.situation.skipped_steps import SKIPS, skips_in
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial

PACE_STEPS = 50  # the newest steps, over which the present pace is taken
_LOSSES, _RATES, _GRADIENTS = "losses", "hyperparameters/", "gradient/"
_GROUPS = "group/gradient/"
_PACE, _NORM = "steps/s", "gradient norm"

StepsAndValues = tuple[NDArray[np.int64], NDArray[np.float64]]
_Squares = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int32]]  # steps, sums of squares, their numbers


@dataclass(frozen=True, eq=False)
class Curve:
    """A number over steps, of the first worker.

    name    its tensor, or a word for several
    steps   int64 of shape (n,), ascending
    values  float64 of shape (n,)
    """

    name: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def newest(self) -> float | None:
        """The last value; None without any."""
        return float(self.values[-1]) if len(self.values) else None


class CurveKind(Enum):
    """The curves of a run."""

    LOSS = "loss"
    LEARNING_RATE = "learning rate"
    GRADIENT_NORM = "gradient norm"
    PACE = "steps a second"


_Same = TypeVar("_Same", bound="Drawing")  # typing.Self came with Python 3.11


class Drawing(Protocol):
    """A receiver of the numbers of a curve, which come a piece at a time. It keeps what its reader needs."""

    def add(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Add a piece, ascending by step. Pieces of a curve come in the order of steps."""

    def merge(self: _Same, other: _Same) -> None:
        """Add the numbers of another one, at other steps."""

    def curve(self, name: str) -> Curve:
        """Return what is kept of the curve."""


class WholeCurve:
    """All numbers of a curve."""

    def __init__(self) -> None:
        self._pieces: list[StepsAndValues] = []
        self._is_in_order = True

    def add(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Implement `Drawing.add`."""
        self._pieces.append((steps, values))

    def merge(self, other: WholeCurve) -> None:
        """Implement `Drawing.merge`."""
        self._pieces += other._pieces
        self._is_in_order = False

    def curve(self, name: str) -> Curve:
        """Return the curve."""
        if len(self._pieces) == 1:
            return Curve(name, *self._pieces[0])
        steps = np.concatenate([np.empty(0, np.int64), *(steps for steps, _ in self._pieces)])
        values = np.concatenate([np.empty(0), *(values for _, values in self._pieces)])
        if not self._is_in_order:
            order = np.argsort(steps, kind="stable")
            steps, values = steps[order], values[order]
        return Curve(name, steps, values)


def _whole(_: CurveKind, __: str) -> WholeCurve:
    return WholeCurve()


@dataclass(frozen=True)
class LiveRun:
    """A run at one moment.

    name            the run's name
    uri             its location
    state           its state
    step            the number of the last training step, without evaluations; -1 for none
    losses          the training losses, without parts of a sum
    learning_rate   of the first optimizer and group
    gradient_norm   of all gradients together
    pace            steps a second at each step, over the steps before it
    steps_per_second  the present pace, over the newest steps; None if unknown
    seconds         time from the first to the last step; None if unknown
    problems        standing ones first, then the gravest
    judged          the part of it that rules have judged
    skipped         number of steps that it skipped, as a gradient scaler does
    rested          number of training steps that were not watched
    """

    name: str
    uri: str
    state: RunState
    step: int
    losses: tuple[Curve, ...]
    learning_rate: Curve
    gradient_norm: Curve
    pace: Curve
    steps_per_second: float | None
    seconds: float | None
    problems: tuple[IssueGroup, ...]
    judged: JudgedPart
    skipped: int = 0
    rested: int = 0

    @property
    def is_open(self) -> bool:
        """True while more may come."""
        return self.state in {RunState.RUNNING, RunState.OPEN}


class LiveRunReader:
    """Reads a run again and again. `stores` opens the store of a location; `clock` returns seconds since the epoch."""

    def __init__(
        self, trial: Trial, *, clock: Callable[[], float], stores: Callable[[str], Store] = open_store
    ) -> None:
        self._trial, self._clock = trial, clock
        self._run = RunLocation(trial.uri.removesuffix(f"/{TENSORS}"))
        self._is_bare = not trial.uri.endswith(f"/{TENSORS}")
        self._store, self._rule_output = stores(self._run.uri), stores(self._run.rule_output)
        self._is_remote = "://" in self._run.uri

    def look(self, *, first: int = 0, drawing: Callable[[CurveKind, str], Drawing] = _whole) -> LiveRun:
        """Read what is new and return the run as it is now.

        Args:
            first: First step of the curves but the pace; some steps before it may come, too.
            drawing: Returns what takes the numbers of a curve of a kind and name. They come a piece at a time, so that
                a reader who wants less than all never holds a million steps.

        Errors: those of the store.
        """
        trial = self._trial
        state, lines = self.state_and_verdicts()
        verdicts = read_verdicts((lines or b"")[: (lines or b"").rfind(b"\n") + 1])
        step = trial.recorded_through
        losses = _losses(trial, first, self._clock(), partial(drawing, CurveKind.LOSS)) if step >= 0 else ()
        learning_rate = _learning_rate(trial, first, partial(drawing, CurveKind.LEARNING_RATE))
        gradient_norm = _gradient_norm(trial, first, step, partial(drawing, CurveKind.GRADIENT_NORM))
        pace = _Pace(drawing(CurveKind.PACE, _PACE))
        for worker in trial.workers[:1]:
            for steps, times in trial.parts.steps.moments(worker):
                pace.add(steps, times, trial.parts.steps.training_numbers(steps))
        return LiveRun(
            name=self._run.name,
            uri=self._run.uri,
            state=state,
            step=trial.parts.steps.training_steps([step])[0] if step >= 0 else step,
            losses=losses,
            learning_rate=learning_rate,
            gradient_norm=gradient_norm,
            pace=pace.curve(),
            steps_per_second=pace.newest,
            seconds=pace.seconds,
            problems=issue_groups(verdicts),
            rested=rested_steps(trial),
            judged=self._judged(verdicts),
            skipped=skips_in([c for name in SKIPS for c in trial.columns(name, "mean", last_step=step, mode=None)]),
        )

    def state_and_verdicts(self) -> tuple[RunState, bytes | None]:
        """Read what is new, and return the state and the lines of verdicts; None without any. Errors: the store's."""
        self._trial.refresh()
        return self._state(), self._get(self._rule_output, VERDICTS_KEY)

    def _judged(self, verdicts: Sequence[Verdict]) -> JudgedPart:
        state, record = state_of(self._run.uri, has_ended=self._trial.has_ended)
        is_running = state in {RunState.RUNNING, RunState.OPEN}
        rules = rule_statuses(
            requested_rules(self._get(self._store, RULE_REQUEST_KEY)),
            verdicts,
            progress=rule_progress(self._rule_output),
            is_running=is_running,
        )
        problem = record.judging_problem if record else ""
        learning = Learning() if is_running else read_learning(self._rule_output)
        return judged_part(rules, state=state, run=self._run.uri, problem=problem, learning=learning)

    def _state(self) -> RunState:
        if self._is_remote or self._is_bare:
            return RunState.ENDED if self._trial.has_ended else RunState.OPEN
        return state_of(self._run.uri, has_ended=self._trial.has_ended)[0]

    def _get(self, store: Store, key: str) -> bytes | None:
        try:
            return store.get(key, length=MOST_VERDICTS_BYTES)
        except KeyNotFoundError:
            return None


def training_losses(trial: Trial, *, now: float) -> tuple[Curve, ...]:
    """Return the training losses of the first worker over the training steps, without parts of a sum."""
    return _losses(trial, 0, now, partial(_whole, CurveKind.LOSS)) if trial.recorded_through >= 0 else ()


def _losses(trial: Trial, first: int, now: float, drawing: Callable[[str], Drawing]) -> tuple[Curve, ...]:
    window = trial.window(trial.recorded_through, now=now)
    for mode in TRAINING_MODES:
        found = _of_first_worker(trial, window.tensors("losses"), drawing, first=first, mode=mode)
        if found:
            parts = parts_of_sums(window.facts, [*found])
            return tuple([drawn.curve(name) for name, drawn in found.items() if name not in parts])
    return ()


def rested_steps(trial: Trial) -> int:
    """Return the number of training steps of the first worker that were not watched.

    Args:
        trial: The run.
    """
    columns = trial.columns(RESTED_STEPS, "mean", last_step=trial.recorded_through, mode=None)
    return int(columns[0].values.sum()) if columns else 0


def steps_per_second(numbers: NDArray[np.int64], times: NDArray[np.float64]) -> float | None:
    """Return the pace of the newest steps; None if it is unknown.

    Args:
        numbers: The numbers of training steps, some of which may be missing: those at rest; shape (n,).
        times: The end of each, in seconds.
    """
    first = max(0, len(numbers) - 1 - PACE_STEPS)
    if len(numbers) - first < 2 or times[-1] <= times[first]:
        return None
    return float((numbers[-1] - numbers[first]) / (times[-1] - times[first]))


class _Pace:
    """The steps a second at each step, over a twentieth of all steps, at most `PACE_STEPS`."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._steps, self._times = np.empty(0, np.int64), np.empty(0)  # those to draw, and some before them
        self._numbers = np.empty(0, np.int64)
        self._drawn = self._count = 0
        self._began = 0.0

    def add(self, steps: NDArray[np.int64], times: NDArray[np.float64], numbers: NDArray[np.int64]) -> None:
        """Add training steps, which follow those before, with their ends and their numbers among training steps."""
        if not self._count:
            self._began = float(times[0])
        self._count += len(steps)
        self._steps, self._times = np.append(self._steps, steps), np.append(self._times, times)
        self._numbers = np.append(self._numbers, numbers)
        if self._count >= 20 * PACE_STEPS:
            self._draw(PACE_STEPS)

    @property
    def newest(self) -> float | None:
        """The present pace; see `steps_per_second`."""
        return steps_per_second(self._numbers, self._times)

    @property
    def seconds(self) -> float | None:
        """The time from the first to the last step; None if it is unknown."""
        return float(self._times[-1]) - self._began if self._count > 1 else None

    def curve(self) -> Curve:
        """Return the curve."""
        if self._count < 20 * PACE_STEPS:
            self._draw(max(1, self._count // 20))
        return self._drawing.curve(_PACE)

    def _draw(self, span: int) -> None:
        begin = max(span, self._drawn)
        steps, end = self._steps[begin:], len(self._times) - span
        seconds = self._times[begin:] - self._times[begin - span : end]
        made = self._numbers[begin:] - self._numbers[begin - span : end]
        is_known = seconds > 0
        if is_known.any():
            self._drawing.add(steps[is_known], made[is_known] / seconds[is_known])
        self._steps, self._times = self._steps[-1 - PACE_STEPS :], self._times[-1 - PACE_STEPS :]
        self._numbers = self._numbers[-1 - PACE_STEPS :]
        self._drawn = len(self._steps)


def _learning_rate(trial: Trial, first: int, drawing: Callable[[str], Drawing]) -> Curve:
    names = [name for name in trial.names if name.startswith(_RATES) and name.endswith("/lr")][:1]
    for drawn in _of_first_worker(trial, names, drawing, first=first, mode=None).values():
        return drawn.curve(names[0])
    return drawing("lr").curve("lr")


def _of_first_worker(
    trial: Trial, names: Sequence[str], drawing: Callable[[str], Drawing], *, first: int, mode: str | None
) -> dict[str, Drawing]:
    """Return what was drawn of the numbers of the first worker with any, by name in the order of `names`."""
    drawn: dict[str, dict[str, Drawing]] = {}
    last = trial.recorded_through
    for worker, numbers in trial.parts.columns.pieces(names, "mean", first=first, last=last, mode=mode):
        of_worker = drawn.setdefault(worker, {})
        for name, (steps, values) in numbers.items():
            if name not in of_worker:
                of_worker[name] = drawing(name)
            at = trial.parts.steps.training_numbers(steps) if mode is not None else steps
            of_worker[name].add(at, values)
    found = drawn[min(drawn)] if drawn else {}
    return {name: found[name] for name in names if name in found}


def _gradient_norm(trial: Trial, first: int, step: int, drawing: Callable[[str], Drawing]) -> Curve:
    """Return the norm of all gradients together, at the steps at which each of them was recorded."""
    recorded = [name for name in trial.names if name.startswith(_GROUPS)]
    names = recorded or [name for name in trial.names if name.startswith(_GRADIENTS)]
    try:
        drawn = _norms(_as_they_come(trial, names, first, step), drawing)
    except _StepsGoBackError:
        drawn = _norms([_all_at_once(trial, names, first, step)], drawing)
    return drawn.curve(_NORM)


class _StepsGoBackError(Exception):
    """The numbers of a step come in several pieces."""


def _as_they_come(trial: Trial, names: Sequence[str], first: int, step: int) -> Iterator[_Squares]:
    newest, of_worker = -1, ""
    for worker, numbers in trial.parts.columns.pieces(names, "l2", first=first, last=step, mode=None):
        of_worker = of_worker or worker
        if worker != of_worker:
            continue
        squares = _squares(numbers.values())
        if squares[0][0] <= newest or worker < of_worker:
            raise _StepsGoBackError
        newest = int(squares[0][-1])
        yield squares


def _all_at_once(trial: Trial, names: Sequence[str], first: int, step: int) -> _Squares:
    parts: dict[str, list[_Squares]] = {}
    for worker, numbers in trial.parts.columns.pieces(names, "l2", first=first, last=step, mode=None):
        parts.setdefault(worker, []).append(_squares(numbers.values()))
    return _added(parts[min(parts)])


def _norms(pieces: Iterable[_Squares], drawing: Callable[[str], Drawing]) -> Drawing:
    """Return the drawing of the steps with as many numbers as most steps have, or more.

    A parameter without a gradient at a step has no number there; a thinned one has none at most steps.
    """
    drawn: dict[int, Drawing] = {}
    found: dict[int, int] = {}
    for steps, squares, counts in pieces:
        for count in np.unique(counts).tolist():
            chosen = counts == count
            if count not in drawn:
                drawn[count] = drawing(_NORM)
            drawn[count].add(steps[chosen], np.sqrt(squares[chosen]))
            found[count] = found.get(count, 0) + int(chosen.sum())
    if not drawn:
        return drawing(_NORM)
    ascending = sorted(found)
    places = np.cumsum([found[count] for count in ascending])
    middle = np.searchsorted(places, [(places[-1] - 1) // 2, places[-1] // 2], side="right")
    first, *others = [count for count in ascending if count >= sum(ascending[place] for place in middle) // 2]
    for count in others:
        drawn[first].merge(drawn[count])
    return drawn[first]


def _squares(numbers: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> _Squares:
    """Return the steps, and at each the sum of the squares and their number."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _added([(steps, values**2, np.ones(len(steps), np.int32)) for steps, values in numbers])


def _added(parts: list[_Squares]) -> _Squares:
    """Return the sums of several parts at each step."""
    known = {id(steps): steps for steps, _, _ in parts}  # tensors that were measured together share them
    if len(known) == 1:
        first, *others = parts
        for _, squares, counts in others:
            first = first[0], first[1] + squares, first[2] + counts
        return first
    steps = np.unique(np.concatenate(list(known.values())))
    squares, counts = np.zeros(len(steps)), np.zeros(len(steps), np.int32)
    for at, values, count in parts:
        places = np.searchsorted(steps, at)
        with np.errstate(over="ignore", invalid="ignore"):
            squares[places] += values
        counts[places] += count
    return steps, squares, counts
