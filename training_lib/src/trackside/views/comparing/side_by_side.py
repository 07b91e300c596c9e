"""Several runs side by side: the verdict of each, their losses over steps, and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.verdict import Severity
from trackside.runs.live_run import Curve, training_losses
from trackside.views.comparing.comparison import ComparedRun, facts_of, pace_of, recovered_rules, standing_issues

MOST_COMPARED = 10

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class OneOfMany:
    """One of several runs.

    is_judged  True if a rule has judged it
    reservation  why it may be ill although no issue stands, as `JudgedPart.reservation`
    worst      severity of its gravest standing issue; None without any
    issues     rules with a standing issue, and its first step
    recovered  rules with an issue that recovered, and the step of the recovery
    steps      number of steps with a loss
    last_loss  None without any
    pace       steps a second, after a warm-up; None if unknown
    """

    name: str
    is_judged: bool
    reservation: str
    worst: Severity | None
    issues: Mapping[str, int]
    recovered: Mapping[str, int]
    steps: int
    last_loss: float | None
    pace: float | None


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Several runs.

    losses  name of each loss of two runs or more; of each of these runs its place, steps and finite values
    facts   each setting that differs, with the values of all runs; "" for a run without it
    """

    runs: tuple[OneOfMany, ...]
    losses: tuple[tuple[str, tuple[tuple[int, Numbers, Numbers], ...]], ...]
    facts: tuple[tuple[str, tuple[str, ...]], ...]


def side_by_side(runs: Sequence[ComparedRun], *, now: float) -> SideBySide:
    """Return several runs side by side. `now` is the time in seconds since the epoch. Errors: those of the stores."""
    losses = [{curve.name: curve for curve in training_losses(run.trial, now=now)} for run in runs]
    shared = [name for name in dict.fromkeys(n for each in losses for n in each) if sum(name in e for e in losses) > 1]
    facts = [facts_of(run) for run in runs]
    names = dict.fromkeys(name for each in facts for name in each)
    rows = [(name, tuple([each.get(name, "") for each in facts])) for name in names]
    return SideBySide(
        runs=tuple([_one(run, curves) for run, curves in zip(runs, losses, strict=True)]),
        losses=tuple([(name, _lines([each.get(name) for each in losses])) for name in shared]),
        facts=tuple([(name, values) for name, values in rows if len({*values}) > 1]),
    )


def _one(run: ComparedRun, curves: Mapping[str, Curve]) -> OneOfMany:
    severities = [group.severity for group in run.recorded.groups if group.standing]
    longest = max(curves.values(), key=lambda curve: len(curve.steps), default=None)
    return OneOfMany(
        name=run.recorded.location.name,
        is_judged=run.recorded.judged.has_answer,
        reservation=run.recorded.judged.reservation,
        worst=max(severities, key=lambda severity: severity.rank, default=None),
        issues=standing_issues(run.recorded),
        recovered=recovered_rules(run.recorded),
        steps=0 if longest is None else len(longest.steps),
        last_loss=next((curve.newest for curve in curves.values()), None),
        pace=pace_of(run.trial),
    )


def _lines(curves: Sequence[Curve | None]) -> tuple[tuple[int, Numbers, Numbers], ...]:
    found = []
    for place, curve in enumerate(curves):
        if curve is not None:
            is_finite = np.isfinite(curve.values)
            if is_finite.any():
                found.append((place, curve.steps[is_finite].astype(np.float64), curve.values[is_finite]))
    return tuple(found)
