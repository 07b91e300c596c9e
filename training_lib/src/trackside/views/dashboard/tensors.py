"""One tensor over the steps of a run: its statistics, in buckets that keep the extremes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.trial.tensors.buckets import Buckets, bucketed, edges_of
from trackside.trial.tensors.statistics import RECORDED_ONLY, STATISTICS
from trackside.trial.trial import Trial
from trackside.views.dashboard.expression import Expression, Numbers, Read
from trackside.views.report.charts.line_chart import MOST_BUCKETS
from trackside.views.report.gathered import within

MOST_WORKERS = 8
MOST_SMALL_BUCKETS = 80
MOST_NUMBERS = 500_000  # read for an expression, which needs each of them: some 30 MB meanwhile
MOST_NAMED = 5
_FEWEST_POINTS = 2
GRADIENT = "gradient/"
# In the order in which they are read: how large, how spread, how broken, how fast it moves.
SHOWN = ("mean", "l2", "std", "min", "max", "zero_share", "nonfinite_count", "update_ratio", "max_norm")
DEFAULT_STATISTIC = "l2"
WORDS = {
    "l2": "norm (l2)",
    "std": "standard deviation (std)",
    "min": "least (min)",
    "max": "most (max)",
    "zero_share": "share of zeros (zero_share)",
    "nonfinite_count": "numbers that are not finite (nonfinite_count)",
    "update_ratio": "relative update, |Δw| / |w| (update_ratio)",
    "max_norm": "the norm that they were clipped to (max_norm)",
}
_MOSTLY_ZERO = {"zero_share", "nonfinite_count", "std"}  # not shown where they are 0 throughout


@dataclass(frozen=True, eq=False)
class SmallCurve:
    """One statistic of a tensor over the steps of a run, of its first process."""

    name: str
    statistic: str
    numbers: Buckets


@dataclass(frozen=True, eq=False)
class TensorCurves:
    """The statistics of a tensor over `steps` (the first and the last): title and numbers of each, in each process."""

    steps: tuple[int, int]
    curves: tuple[tuple[str, Buckets], ...]


def tensor_curves(trial: Trial, name: str, window: tuple[int | None, int | None]) -> TensorCurves | None:
    """Return the curves of a tensor within a window; None without a number. Errors: those of the store."""
    whole = (0, max(0, trial.recorded_through))
    curves = dict(_curves(trial, name, edges_of(*whole, MOST_BUCKETS)))
    ends = [(int(numbers.first[0]), int(numbers.last[-1])) for numbers in curves.values()]
    steps = within((min(first for first, _ in ends), max(last for _, last in ends)), window) if ends else None
    if steps is None:
        return None
    if steps != whole:
        curves = dict(_curves(trial, name, edges_of(*steps, MOST_BUCKETS)))
    return TensorCurves(steps, tuple(curves.items()))


def small_curves(trial: Trial, names: Sequence[str], statistic: str, steps: tuple[int, int]) -> dict[str, SmallCurve]:
    """Return a small curve of each tensor by its name: of `statistic`, or of the mean if that has less than two points.

    Of a loss it is the mean anyway.

    Args:
        trial: The run.
        names: The tensors.
        statistic: One of `SHOWN`.
        steps: First and last step.
    """
    found: dict[str, SmallCurve] = {}
    losses = {*trial.tensor_names(collection="losses")}  # of which a mean is known at each step
    for one in dict.fromkeys((statistic, "mean")):
        missing = [
            name
            for name in names
            if (one == "mean" or name not in losses)
            and (name not in found or len(found[name].numbers.first) < _FEWEST_POINTS)
        ]
        try:
            numbers = trial.parts.columns.in_buckets(missing, one, edges_of(*steps, MOST_SMALL_BUCKETS), mode=None)
        except ConfigurationError:  # not recorded by this run
            continue
        for name, some in numbers.items():
            for curve in list(some.values())[:1]:
                if name not in found or len(curve.first) >= _FEWEST_POINTS:
                    found[name] = SmallCurve(name, one, curve)
    return found


def in_model_order(trial: Trial, names: Sequence[str]) -> list[str]:
    """Return tensors in the order of the model, a gradient behind its parameter, others by name behind them."""
    facts = trial.model_facts
    order = {parameter.name: place for place, parameter in enumerate(facts.parameters)} if facts else {}
    return sorted(names, key=lambda name: (order.get(name.removeprefix(GRADIENT), len(order)), name))


def expression_curves(
    trial: Trial, name: str, text: str, window: tuple[int | None, int | None]
) -> TensorCurves | ConfigurationError:
    """Return an expression over the steps of a window, for each process, or the reason why it has no curve.

    Args:
        trial: The run.
        name: The tensor of statistics that name none.
        text: The expression.
        window: First and last step; None: those of the run.
    """
    try:
        return _expression_curves(trial, name, text, window)
    except ConfigurationError as error:
        return error


def _expression_curves(
    trial: Trial, name: str, text: str, window: tuple[int | None, int | None]
) -> TensorCurves | ConfigurationError:
    recorded = (one for some in trial.parts.columns.recorded_statistics().values() for one in some)
    expression = Expression.parse(text, statistics={*STATISTICS, *RECORDED_ONLY, *recorded})
    whole = (0, max(0, trial.recorded_through, *trial.steps()[-1:]))
    steps = within(whole, window) or whole
    most = MOST_NUMBERS // len(expression.reads)
    if steps[1] - steps[0] >= most:
        what = f"An expression of {len(expression.reads)} statistics is computed over at most {most:,} steps."
        return _no_expression(f"steps {steps[0]:,} to {steps[1]:,}", what, "Choose fewer steps above.")
    found = {read: _numbers(trial, read, name, steps) for read in expression.reads}
    shared = set.intersection(*({*some} for some in found.values()))
    curves = []
    several = len(trial.workers) > 1
    for worker in sorted(shared)[:MOST_WORKERS]:
        result = expression.numbers({read: some[worker] for read, some in found.items()})
        if len(result.steps):
            edges = edges_of(int(result.steps[0]), int(result.steps[-1]), MOST_BUCKETS)
            title = f"{text}, {worker}" if several else text
            curves.append((title, bucketed(result.steps, result.values, edges)))
    if not curves:
        return _no_expression("steps", "Its statistics have no step in common here.", "Choose more steps above.")
    ends = [(int(numbers.first[0]), int(numbers.last[-1])) for _, numbers in curves]
    return TensorCurves((min(first for first, _ in ends), max(last for _, last in ends)), tuple(curves))


def _numbers(trial: Trial, read: Read, name: str, steps: tuple[int, int]) -> Mapping[str, Numbers]:
    """Return the numbers of a statistic of an expression at these steps, by process."""
    tensor, columns = read.tensor or name, trial.parts.columns
    if tensor not in trial.names:
        near = [one for one in trial.names if tensor.lower() in one.lower()][:MOST_NAMED]
        fix = f"Near: {', '.join(near)}." if near else did_you_mean(tensor, trial.names[:MOST_NAMED])
        raise _no_expression(f"tensor {tensor!r}", "The run has no tensor of this name.", fix)
    statistic = read.statistic or _usual_statistic(trial, tensor)
    parts: dict[str, list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = {}
    for worker, numbers in columns.pieces([tensor], statistic, first=steps[0], last=steps[1], mode=None):
        for some, values in numbers.values():
            first = int(np.searchsorted(some, steps[0]))
            if first < len(some):
                parts.setdefault(worker, []).append((some[first:], values[first:]))
    if not parts:
        known = ", ".join(sorted(columns.recorded_statistics().get(tensor, ()))) or "none"
        raise _no_expression(f"{statistic} of {tensor!r}", "It has no number at these steps.", f"Recorded: {known}.")
    return {
        worker: Numbers(*some[0])
        if len(some) == 1
        else Numbers(np.concatenate([one for one, _ in some]), np.concatenate([one for _, one in some]))
        for worker, some in parts.items()
    }


def _usual_statistic(trial: Trial, tensor: str) -> str:
    """Return the statistic of a tensor's small curve: the mean of a loss and of what has no norm, else the norm."""
    recorded = trial.parts.columns.recorded_statistics().get(tensor, frozenset((DEFAULT_STATISTIC,)))
    is_loss = tensor in trial.tensor_names(collection="losses")
    return "mean" if is_loss or DEFAULT_STATISTIC not in recorded else DEFAULT_STATISTIC


def _no_expression(where: str, what: str, fix: str) -> ConfigurationError:
    return ConfigurationError([Problem(where, what, fix)], subject="The expression")


def _curves(trial: Trial, name: str, edges: NDArray[np.int64]) -> Iterator[tuple[str, Buckets]]:
    several = len(trial.workers) > 1
    for statistic in SHOWN:
        try:
            found = trial.parts.columns.in_buckets([name], statistic, edges, mode=None)
        except ConfigurationError:  # not recorded by this run
            continue
        for worker, numbers in list(found.get(name, {}).items())[:MOST_WORKERS]:
            is_zero = not (np.any(numbers.low) or np.any(numbers.high) or np.any(numbers.is_broken))
            if not (statistic in _MOSTLY_ZERO and is_zero):
                words = WORDS.get(statistic, statistic)
                yield f"{words}, {worker}" if several else words, numbers
