"""Steps, losses and rates that frameworks count and log themselves, beside what Trackside records of the same runs.

    python -m benchmarks.steps --python PYTHON --write docs/frameworks.md

PYTHON has Trackside and the frameworks of `programs.py`. Each program is trained as capture is by default, those with
micro-batches also with four of them for an update. An interrupt ends the trainings, and what has run is written.
Where a log is not one number for each recorded step, `READINGS` has the formula that makes the recorded numbers of the
logged ones, and its words. Fails if a number differs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put, table
from benchmarks.steps.programs import PROGRAMS
from trackside.environment import inherited
from trackside.trial.trial import open_trial

BEGIN, END = "<!-- steps -->", "<!-- end of steps -->"
SCRIPT = Path(__file__).with_name("programs.py")
SURROUNDINGS = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch"}
STEPS, LOSSES, RATES = "steps", "losses", "rates"
CLOSE = 1e-4
OF_ROUNDS = ("xgboost", "lightgbm", "catboost", "sklearn_boosting", "sklearn_network")
WITHOUT_PARTS = (*OF_ROUNDS, "stable_baselines3")
SMOOTHING = 0.98  # fastai's

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Reading:
    """How recorded numbers follow from logged ones.

    words     the difference, in words
    formula   from the logged numbers and the number of micro-batches to the recorded ones; None: they do not follow
    left_out  recorded steps at the end without a logged number
    """

    words: str
    formula: Callable[[Numbers, int], Numbers] | None
    left_out: int = 0


def _same(logged: Numbers, _: int) -> Numbers:
    return logged


def _mean(logged: Numbers, parts: int) -> Numbers:
    means: Numbers = logged.reshape(-1, parts).mean(1)
    return means


def _sum(logged: Numbers, parts: int) -> Numbers:
    sums: Numbers = logged.reshape(-1, parts).sum(1)
    return sums


def _last(logged: Numbers, parts: int) -> Numbers:
    return logged[parts - 1 :: parts]


def _without_mean(logged: Numbers, _: int) -> Numbers:
    return np.diff(logged * np.arange(1, len(logged) + 1), prepend=0.0)


def _without_smoothing(logged: Numbers, parts: int) -> Numbers:
    sums = logged * (1 - SMOOTHING ** np.arange(1, len(logged) + 1))
    return _mean((sums - SMOOTHING * np.r_[0.0, sums[:-1]]) / (1 - SMOOTHING), parts)


_BATCHES = Reading("it counts batches", lambda logged, parts: logged // parts)
_LAST_RATE = Reading("it logs each batch; recorded is that of the update", _last)
_SMOOTHED = Reading("it logs a smoothed loss of each batch; recorded is the loss itself", _without_smoothing)
_MEAN_SINCE = Reading("it logs the mean since the epoch began; recorded is each batch's own", _without_mean)
_NO_RATES = Reading("not recorded by default", lambda logged, _: logged[:0])
_LAST_UPDATE = Reading("the last update is logged nowhere, the others are equal", _same, left_out=1)
# By framework, number of micro-batches, and column; all others are the same numbers.
READINGS: Mapping[tuple[str, int, str], Reading] = {
    ("lightning", 4, LOSSES): Reading("it logs the last micro-batch of each update; recorded is the mean of all", None),
    ("fastai", 1, LOSSES): _SMOOTHED,
    ("fastai", 4, LOSSES): _SMOOTHED,
    ("fastai", 4, STEPS): _BATCHES,
    ("fastai", 4, RATES): _LAST_RATE,
    ("ignite", 4, STEPS): _BATCHES,
    ("ignite", 4, LOSSES): Reading("it logs each batch; recorded is the mean of an update's", _mean),
    ("skorch", 4, STEPS): _BATCHES,
    ("skorch", 4, LOSSES): Reading("it logs a quarter of each batch's; recorded is their sum", _sum),
    ("skorch", 4, RATES): _LAST_RATE,
    ("keras", 4, STEPS): Reading("`iterations` counts updates; recorded is each batch", lambda own, parts: own * parts),
    ("keras", 1, LOSSES): _MEAN_SINCE,
    ("keras", 4, LOSSES): _MEAN_SINCE,
    ("stable_baselines3", 1, LOSSES): _LAST_UPDATE,
    ("stable_baselines3", 1, RATES): _LAST_UPDATE,
    **{(name, 1, RATES): _NO_RATES for name in OF_ROUNDS},
}
_USUAL = Reading("", _same)


@dataclass(frozen=True)
class Compared:
    """A cell: what the framework has, what is recorded, and whether one follows from the other."""

    logged: Numbers
    recorded: Numbers
    reading: Reading
    parts: int

    @property
    def follows(self) -> bool:
        """True if the recorded numbers are those that the reading makes of the logged ones."""
        if self.reading.formula is None:
            return True
        made = self.reading.formula(self.logged, self.parts)
        found = self.recorded[: len(self.recorded) - self.reading.left_out]
        return len(made) == len(found) and np.allclose(made, found, rtol=CLOSE, atol=CLOSE**2)

    @property
    def shown(self) -> str:
        """The cell of the table: the last number of both."""
        last = [f"{each[-1]:.5g}" for each in (self.logged, self.recorded) if len(each)]
        if not self.follows:
            return f"**differs**: {', '.join(last)}"
        return last[0] if not self.reading.words else f"{' and '.join(last)}: {self.reading.words}"


def compared(python: str, name: str, parts: int) -> Mapping[str, Compared]:
    """Train a program once, captured, and return its cells by column.

    Raises:
        RuntimeError: The program failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        done = subprocess.run(
            [python, str(SCRIPT), name, str(parts)],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**inherited(), **SURROUNDINGS, "TRACKSIDE_RUN": run},
        )
        printed = [line for line in done.stdout.splitlines() if line.startswith('{"steps"')]
        if not printed:
            raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
        own: Mapping[str, Any] = json.loads(printed[-1])
        recorded = _recorded(run)
    return {
        column: Compared(
            np.atleast_1d(own[column]), recorded[column], READINGS.get((name, parts, column), _USUAL), parts
        )
        for column in (STEPS, LOSSES, RATES)
    }


def _recorded(run: str) -> Mapping[str, Numbers]:
    trial = open_trial(run)
    losses, *others = (_numbers(trial, name) for name in trial.tensor_names(collection="losses"))
    assert not others, "a program has one loss"
    rates = [each.name for each in trial.tensors(regex=r"^hyperparameters/.*/group_0/lr$", mode="TRAIN")]
    return {
        STEPS: np.array([len(losses)]),
        LOSSES: losses,
        RATES: _numbers(trial, rates[0]) if rates else np.array([]),
    }


def _numbers(trial: Any, name: str) -> Numbers:
    values: Numbers = np.asarray(trial.tensor(name, mode="TRAIN").statistic("mean").values, dtype=float)
    return values


def page(rows: Iterable[tuple[str, int, Mapping[str, Compared]]]) -> str:
    """Return the table."""
    cells = (
        (f"`{name}`", parts, *(each[column].shown for column in (STEPS, LOSSES, RATES))) for name, parts, each in rows
    )
    return "\n".join(table("program | micro-batches | steps | last loss | last rate", cells))


def main(words: Sequence[str] | None = None) -> int:
    """Carry out the command."""
    options = parser(__doc__)
    options.add_argument("--python", default=sys.executable)
    options.add_argument("--only", nargs="*", default=(), help="names of programs")
    options.add_argument("--write", type=Path)
    arguments = options.parse_args(words)
    rows = []
    with suppress(KeyboardInterrupt):
        for name in arguments.only or PROGRAMS:
            for parts in (1,) if name in WITHOUT_PARTS else (1, 4):
                rows.append((name, parts, compared(arguments.python, name, parts)))
                print(name, parts, *(f"{key}: {each.shown}" for key, each in rows[-1][2].items()), sep="; ", flush=True)
    put(page(rows), arguments.write, begin=BEGIN, end=END)
    return 0 if all(each.follows for *_, cells in rows for each in cells.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
