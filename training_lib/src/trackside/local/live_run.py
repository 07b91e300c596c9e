"""A run at one moment, as `trackside watch` and `trackside compare` show it: its curves, its pace, its problems."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.contracts.run_layout import RULE_REQUEST_KEY, TENSORS, VERDICTS_KEY, RunLocation
from trackside.evaluation.sinks.json_lines import MOST_VERDICTS_BYTES
from trackside.local.run_folder import RunState, read_record, run_state
from trackside.local.verdict_feed import read_verdicts
from trackside.rules.training_loss import whole_losses
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial
from trackside.trial.window import Column

PACE_STEPS = 50  # the newest steps, over which the present pace is taken
_LOSSES, _RATES, _GRADIENTS = "losses", "hyperparameters/", "gradient/"
_GROUPS = "group/gradient/"

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


def _whole(_: CurveKind, curve: Curve) -> Curve:
    return curve


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
    is_judged       True once rules were requested for it
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
    is_judged: bool

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

    def look(self, *, first: int = 0, keep: Callable[[CurveKind, Curve], Curve] = _whole) -> LiveRun:
        """Read what is new and return the run as it is now.

        Args:
            first: First step of the gradient norm, which is read from many tensors; some steps before it may come, too.
            keep: Returns what to keep of a curve. Each is given away before the next one is read, so that a reader who
                wants less than all never holds a million steps of all curves.

        Errors: those of the store.
        """
        trial = self._trial
        state, lines = self.state_and_verdicts()
        step = trial.recorded_through
        losses = tuple([keep(CurveKind.LOSS, loss) for loss in training_losses(trial, now=self._clock())])
        learning_rate = keep(CurveKind.LEARNING_RATE, _learning_rate(trial, step))
        gradient_norm = keep(CurveKind.GRADIENT_NORM, _gradient_norm(trial, first, step))
        steps, times = self._times()
        return LiveRun(
            name=self._run.name,
            uri=self._run.uri,
            state=state,
            step=trial.parts.steps.training_steps([step])[0] if step >= 0 else step,
            losses=losses,
            learning_rate=learning_rate,
            gradient_norm=gradient_norm,
            pace=keep(CurveKind.PACE, _pace(steps, times)),
            steps_per_second=steps_per_second(steps, times),
            seconds=float(times[-1] - times[0]) if len(times) > 1 else None,
            problems=issue_groups(read_verdicts((lines or b"")[: (lines or b"").rfind(b"\n") + 1])),
            is_judged=lines is not None or self._get(self._store, RULE_REQUEST_KEY) is not None,
        )

    def state_and_verdicts(self) -> tuple[RunState, bytes | None]:
        """Read what is new, and return the state and the lines of verdicts; None without any. Errors: the store's."""
        self._trial.refresh()
        return self._state(), self._get(self._rule_output, VERDICTS_KEY)

    def _state(self) -> RunState:
        if self._is_remote or self._is_bare:
            return RunState.ENDED if self._trial.has_ended else RunState.OPEN
        folder = Path(self._run.uri)
        state = run_state(folder)
        # Without `trackside run` nobody knows whether the training lives: the run is open until its end marker is read.
        return RunState.OPEN if state is RunState.LOST and read_record(folder) is None else state

    def _times(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        workers = self._trial.workers
        if not workers:
            return np.empty(0, np.int64), np.empty(0)
        return self._trial.parts.steps.times(workers[0])

    def _get(self, store: Store, key: str) -> bytes | None:
        try:
            return store.get(key, length=MOST_VERDICTS_BYTES)
        except KeyNotFoundError:
            return None


def training_losses(trial: Trial, *, now: float) -> tuple[Curve, ...]:
    """Return the training losses of the first worker over the training steps, without parts of a sum."""
    if trial.recorded_through < 0:
        return ()
    losses = _of_first_worker(whole_losses(trial.window(trial.recorded_through, now=now)))
    return tuple([replace(loss, steps=trial.parts.steps.training_numbers(loss.steps)) for loss in losses])


def steps_per_second(steps: NDArray[np.int64], times: NDArray[np.float64]) -> float | None:
    """Return the pace of the newest steps; None if it is unknown."""
    first = max(0, len(steps) - 1 - PACE_STEPS)
    if len(steps) - first < 2 or times[-1] <= times[first]:
        return None
    return float((len(steps) - 1 - first) / (times[-1] - times[first]))


def _pace(steps: NDArray[np.int64], times: NDArray[np.float64]) -> Curve:
    """Return the steps a second at each step, over a twentieth of all steps, at most `PACE_STEPS`."""
    span = max(1, min(PACE_STEPS, len(steps) // 20))
    if len(steps) <= span:
        return Curve("steps/s", steps[:0], times[:0])
    seconds = times[span:] - times[:-span]
    is_known = seconds > 0
    if is_known.all():
        return Curve("steps/s", steps[span:], np.divide(span, seconds, out=seconds))
    return Curve("steps/s", steps[span:][is_known], span / seconds[is_known])


def _learning_rate(trial: Trial, step: int) -> Curve:
    names = [name for name in trial.names if name.startswith(_RATES) and name.endswith("/lr")]
    return _first([c for name in names[:1] for c in trial.columns(name, "mean", last_step=step, mode=None)], "lr")


def _gradient_norm(trial: Trial, first: int, step: int) -> Curve:
    """Return the norm of all gradients together, at the steps at which each of them was recorded."""
    recorded = [name for name in trial.names if name.startswith(_GROUPS)]
    names = recorded or [name for name in trial.names if name.startswith(_GRADIENTS)]
    parts: dict[str, list[_Squares]] = {}
    for worker, numbers in trial.parts.columns.pieces(names, "l2", first=first, last=step, mode=None):
        parts.setdefault(worker, []).append(_squares(numbers.values()))
    if not any(parts.values()):
        return _first([], "gradient norm")
    steps, squares, counts = _added(parts.pop(min(parts)))
    # A parameter without a gradient at a step has no number there; a thinned one has none at most steps.
    whole = counts >= max(1, int(np.median(counts)))
    del counts
    if not whole.all():
        steps, squares = steps[whole], squares[whole]
    return Curve("gradient norm", steps, np.sqrt(squares, out=squares))


def _squares(numbers: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> _Squares:
    """Return the steps, and at each the sum of the squares and their number."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _added([(steps, values**2, np.ones(len(steps), np.int32)) for steps, values in numbers])


def _added(parts: list[_Squares]) -> _Squares:
    """Return the sums of several parts at each step."""
    if len(parts) > 1 and all(before[0][-1] < after[0][0] for before, after in itertools.pairwise(parts)):
        return _in_a_row(parts)
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


def _in_a_row(parts: list[_Squares]) -> _Squares:
    """Join parts that follow one another, and empty the list: not both are in memory."""
    count, place = sum(len(steps) for steps, _, _ in parts), 0
    steps, squares, counts = np.empty(count, np.int64), np.empty(count), np.empty(count, np.int32)
    parts.reverse()
    while parts:
        part = parts.pop()
        inside = slice(place, place + len(part[0]))
        steps[inside], squares[inside], counts[inside] = part
        place = inside.stop
    return steps, squares, counts


def _of_first_worker(columns: Sequence[Column]) -> tuple[Curve, ...]:
    worker = min((column.worker for column in columns), default="")
    return tuple([Curve(c.tensor, c.steps, c.values) for c in columns if c.worker == worker])


def _first(columns: Sequence[Column], name: str) -> Curve:
    if not columns:
        return Curve(name, np.empty(0, np.int64), np.empty(0))
    first = min(columns, key=lambda column: column.worker)
    return Curve(name, first.steps, first.values)
