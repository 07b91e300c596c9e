"""Runs a script of a user in a process of its own, captured or not: the way of `trackside run`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import trackside
from tests.patience import HANGS_SECONDS
from tests.warm_python import WarmPython
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import inherited
from trackside.trial.trial import Trial

Printed = Callable[..., tuple[str, str]]  # `printed`, or a part of it

EVERYTHING = CaptureRequest(
    tuple(
        CollectionRequest(name, Schedule(every))
        for name, every in (("metrics", 1), ("losses", 1), ("hyperparameters", 100), ("feature_importance", 5))
    ),
    statistics=StatisticsRequest(budget=1.0),
)
# What rules about data need, at their intervals.
ROWS = CaptureRequest(
    tuple(CollectionRequest(name, Schedule(50, end_step=101)) for name in ("model_inputs", "rows", "labels")),
    statistics=StatisticsRequest(budget=1.0),
)


def printed(
    script: str,
    run: Path | None = None,
    request: CaptureRequest = EVERYTHING,
    *,
    warm: tuple[WarmPython, Path] | None = None,
) -> tuple[str, str]:
    """Run a script, captured if `run` is a folder. Return its output, and what it logged.

    With `warm` its process is a fork of that one, which works in the folder beside it.
    """
    captured = {"TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": request.to_json()} if run else {}
    environment = {**inherited(), "OMP_NUM_THREADS": "1", **captured}
    if warm is None:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_SECONDS,
        )
    else:
        python, folder = warm
        (folder / "script.py").write_text(script, encoding="utf-8")
        done = python.run(folder / "script.py", env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def curve(trial: Trial, loss: str, mode: str) -> list[float]:
    """Return the recorded losses of a mode, in the order of their steps."""
    columns = trial.columns(f"{loss}_output_0", "mean", last_step=10**9, mode=mode)
    return [value for column in columns for value in column.values.tolist()]


def opened(run: Path) -> Trial:
    """Open a run."""
    return trackside.open_trial(str(run))
