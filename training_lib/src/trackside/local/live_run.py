"""A run at one moment, as `trackside watch` and `trackside compare` show it: its curves, its pace, its problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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

    def look(self) -> LiveRun:
        """Read what is new and return the run as it is now. Errors: those of the store."""
        trial = self._trial
        state, lines = self.state_and_verdicts()
        step = trial.recorded_through
        steps, times = self._times()
        return LiveRun(
            name=self._run.name,
            uri=self._run.uri,
            state=state,
            step=trial.parts.steps.training_steps([step])[0] if step >= 0 else step,
            losses=training_losses(trial, now=self._clock()),
            learning_rate=_learning_rate(trial, step),
            gradient_norm=_gradient_norm(trial, step),
            pace=_pace(steps, times),
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
    numbers = trial.parts.steps.training_steps
    return tuple([replace(loss, steps=np.array(numbers(loss.steps.tolist()), np.int64)) for loss in losses])


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
    return Curve("steps/s", steps[span:][is_known], span / seconds[is_known])


def _learning_rate(trial: Trial, step: int) -> Curve:
    names = [name for name in trial.names if name.startswith(_RATES) and name.endswith("/lr")]
    return _first([c for name in names[:1] for c in trial.columns(name, "mean", last_step=step, mode=None)], "lr")


def _gradient_norm(trial: Trial, step: int) -> Curve:
    """Return the norm of all gradients together, at the steps at which each of them was recorded."""
    recorded = [name for name in trial.names if name.startswith(_GROUPS)]
    names = recorded or [name for name in trial.names if name.startswith(_GRADIENTS)]
    columns = [column for name in names for column in trial.columns(name, "l2", last_step=step, mode=None)]
    worker = min((column.worker for column in columns), default="")
    mine = [column for column in columns if column.worker == worker]
    if not mine:
        return _first([], "gradient norm")
    longest = max(mine, key=lambda column: len(column.steps))
    squares, count = np.zeros(len(longest.steps)), np.zeros(len(longest.steps), np.int64)
    for column in mine:
        places = np.searchsorted(longest.steps, column.steps)
        inside = (places < len(longest.steps)) & (
            longest.steps[np.minimum(places, len(longest.steps) - 1)] == column.steps
        )
        with np.errstate(over="ignore", invalid="ignore"):
            squares[places[inside]] += column.values[inside] ** 2
        count[places[inside]] += 1
    # A parameter without a gradient at a step has no number there; a thinned one has none at most steps.
    whole = count >= max(1, int(np.median(count)))
    return Curve("gradient norm", longest.steps[whole], np.sqrt(squares[whole]))


def _of_first_worker(columns: Sequence[Column]) -> tuple[Curve, ...]:
    worker = min((column.worker for column in columns), default="")
    return tuple([Curve(c.tensor, c.steps, c.values) for c in columns if c.worker == worker])


def _first(columns: Sequence[Column], name: str) -> Curve:
    if not columns:
        return Curve(name, np.empty(0, np.int64), np.empty(0))
    first = min(columns, key=lambda column: column.worker)
    return Curve(name, first.steps, first.values)
