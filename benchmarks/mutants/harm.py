"""Does a mutant hurt? An exact permutation test over seeds, and a least effect.

The own corpus is measured by its score on data that no program saw; other people's trainers by the plain loss of the
last part of the training: that of the evaluation if the twin evaluates, else that of the training.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations

from benchmarks.mutants.plain_losses import BACKWARD, EVALUATION, Recorded, Series

LEAST_SEEDS = 3
LEVEL = 0.05
LEAST_EFFECT = 0.05  # of what the twin has learned, on average over the seeds
FEWEST_VALUES = 5


def p_value(twins: Sequence[float], mutants: Sequence[float]) -> float:
    """Return the share of all regroupings in which the mutants are at least as much worse than here.

    Args:
        twins: A number for each twin, the higher the better.
        mutants: A number for each mutant.
    """
    every = [*twins, *mutants]
    total = math.fsum(every)

    def difference(chosen: Sequence[float]) -> float:
        worse = math.fsum(chosen)
        return (total - worse) / len(twins) - worse / len(mutants)

    observed = difference(mutants)
    slack = 1e-12 * max(1.0, *(abs(each) for each in every))
    splits = list(combinations(every, len(mutants)))
    return sum(difference(split) >= observed - slack for split in splits) / len(splits)


def hurts(twins: Sequence[float], mutants: Sequence[float], *, nothing: Sequence[float]) -> bool | None:
    """Return True if the mutants are worse by the test and by the least effect; None with too few seeds.

    Args:
        twins: A number for each twin, the higher the better, by seed.
        mutants: A number for each mutant, by the same seeds.
        nothing: A number for each seed: that of a model that has learned nothing.
    """
    if min(len(twins), len(mutants)) < LEAST_SEEDS:
        return None
    lost = lost_share(twins, mutants, nothing=nothing)
    return lost is not None and p_value(twins, mutants) <= LEVEL and lost >= LEAST_EFFECT


def lost_share(twins: Sequence[float], mutants: Sequence[float], *, nothing: Sequence[float]) -> float | None:
    """Return the share of what the twins learned that the mutants lack; None if the twins learned nothing.

    Args:
        twins: A number for each twin, the higher the better, by seed.
        mutants: A number for each mutant, by the same seeds.
        nothing: A number for each seed: that of a model that has learned nothing.
    """
    lost = [
        (good - bad) / (good - none)
        for good, bad, none in zip(twins, mutants, nothing, strict=True)
        if good > none  # else this seed of the twin has learned nothing
    ]
    return statistics.mean(lost) if lost else None


def measured_series(twin: Recorded) -> str:
    """Return the name of the loss by which a program is measured, chosen by its twin; "" if it has none."""

    def most(names: Sequence[str]) -> str:
        return max(names, key=lambda name: twin.series[name].count, default="")

    named = [name for name, series in twin.series.items() if name != BACKWARD and series.count >= FEWEST_VALUES]
    evaluated = most([name for name in named if name.startswith(EVALUATION)])
    trained = most([name for name in named if not name.startswith(EVALUATION)])
    # The loss of the evaluation must be that of the training: an evaluation may compute others.
    if evaluated and evaluated == f"{EVALUATION} {trained}":
        return evaluated
    backward = twin.series.get(BACKWARD, Series()).count
    if trained and twin.series[trained].count >= backward / 2:
        return trained
    return BACKWARD if backward else ""


def quality(recorded: Recorded, name: str, *, nothing: float) -> float:
    """Return minus the median of the last losses; `nothing` if they are missing or no numbers."""
    last = list(recorded.series.get(name, Series()).last)
    last = last[-max(FEWEST_VALUES, len(last) // 4) :]
    if not last or not all(math.isfinite(each) for each in last):
        return nothing
    return -statistics.median(last)


def nothing_learned(twin: Recorded, name: str) -> float:
    """Return minus the median of the twin's first losses."""
    first = twin.series.get(name, Series()).first
    return -statistics.median(first) if first else math.nan


def qualities(
    twins: Mapping[int, Recorded], mutants: Mapping[int, Recorded]
) -> tuple[list[float], list[float], list[float]]:
    """Return twins, mutants and models that learned nothing as numbers, by the seeds of both."""
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    for seed in sorted(twins.keys() & mutants.keys()):
        name = measured_series(twins[seed])
        nothing = nothing_learned(twins[seed], name)
        if not name or not math.isfinite(nothing):
            continue
        found[0].append(quality(twins[seed], name, nothing=nothing))
        found[1].append(quality(mutants[seed], name, nothing=nothing))
        found[2].append(nothing)
    return found
