"""The values of a tensor over steps: quantiles and histograms of saved values, else the sizes that are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import RecordError, TensorNotSavedError
from trackside.contracts.issue_group import IssueGroup
from trackside.trial.tensors.buckets import Buckets, edges_of
from trackside.trial.trial import Trial
from trackside.views.report.charts.line_chart import MOST_BUCKETS

MOST_STEPS = 40  # of saved values that are read
MOST_BYTES = 64 << 20  # of the values of one tensor that are read
MOST_TENSORS = 6  # on a page about the run
BINS = 60
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_SMALLEST = 1e-250  # of a median size over the largest
_WIDE = 50.0  # a tensor whose largest value is so many times its median size has bins that grow outwards

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Distribution:
    """The values of one tensor over steps.

    name       of the tensor
    worker     process whose values they are
    steps      saved steps, of shape (n,); () if no values were saved
    quantiles  at `QUANTILES`, of the finite values, of shape (n, 7); NaN where none is finite
    edges      of the bins, of shape (bins + 1,)
    counts     values in each bin, of shape (n, bins)
    size       number of elements
    zeros, broken   elements that are 0, and that are not finite, of shape (n,)
    left_out   saved steps that were not read
    sizes      where no values were saved: mean size of an element, root mean square, largest, as (title, numbers)
    """

    name: str
    worker: str
    steps: NDArray[np.int64]
    quantiles: Numbers
    edges: Numbers
    counts: NDArray[np.int64]
    size: int
    zeros: NDArray[np.int64]
    broken: NDArray[np.int64]
    left_out: int = 0
    sizes: tuple[tuple[str, Buckets], ...] = field(default=())


def distributions(trial: Trial, problems: Sequence[IssueGroup], steps: tuple[int, int]) -> tuple[Distribution, ...]:
    """Return the distributions of the tensors to look at first: those that findings name, then those with saved values.

    Args:
        trial: The run.
        problems: The problems of the run, the gravest first.
        steps: First and last step to show.
    """
    named = [finding.subject for group in problems for issue in group.standing for finding in issue.findings]
    ends = [issue.lead.subject for group in problems for issue in group.standing if issue.lead is not None]
    saved = [name for kind in ("weights", "biases", "gradients") for name in trial.tensor_names(collection=kind)]
    found: list[Distribution] = []
    for name in dict.fromkeys((*ends, *named, *saved)):
        if len(found) == MOST_TENSORS:
            break
        one = distribution_of(trial, name, steps, is_needed=name in named or name in ends)
        if one is not None:
            found.append(one)
    return tuple(found)


def distribution_of(
    trial: Trial, name: str, steps: tuple[int, int], *, worker: str | None = None, is_needed: bool = True
) -> Distribution | None:
    """Return the values of one tensor over these steps; None if nothing of it is known.

    Args:
        trial: The run.
        name: The tensor.
        steps: First and last step.
        worker: The process; None for the first one that saved it.
        is_needed: True to fall back on recorded sizes where no values were saved.
    """
    held = [s for s in trial.parts.saved.saved(name) if name in s.layout.records and steps[0] <= s.step <= steps[1]]
    worker = worker or min((one.worker for one in held), default="")
    at = sorted({one.step for one in held if one.worker == worker})
    if at:
        found = _of_values(trial, name, worker, at)
        if found is not None:
            return found
    sizes = _sizes(trial, name, steps) if is_needed else ()
    if not sizes:
        return None
    none = np.empty(0)
    counts = np.empty((0, 0), np.int64)
    return Distribution(
        name,
        "",
        none.astype(np.int64),
        np.empty((0, len(QUANTILES))),
        none,
        counts,
        0,
        counts[:, 0:0],
        counts,
        0,
        sizes,
    )


def _of_values(trial: Trial, name: str, worker: str, at: Sequence[int]) -> Distribution | None:
    try:
        last = trial.value(name, step=at[-1], worker=worker)
        if last.dtype.kind != "f" or last.size < 2:
            return None  # a number has a curve
        most = max(2, min(MOST_STEPS, MOST_BYTES // max(1, last.nbytes)))
        chosen = [at[place] for place in np.unique(np.linspace(0, len(at) - 1, min(len(at), most)).astype(int))]
        read = trial.values(name, steps=chosen, worker=worker)
    except (RecordError, TensorNotSavedError):
        return None
    return described(name, worker, chosen, read, left_out=len(at) - len(chosen))


def described(
    name: str, worker: str, steps: Sequence[int], read: Sequence[NDArray[np.generic]], *, left_out: int = 0
) -> Distribution:
    """Return the distribution of a tensor from its values at these steps.

    Args:
        name: The tensor.
        worker: The process.
        steps: The steps, ascending.
        read: Values at each of them.
        left_out: Saved steps that were not read.
    """
    values = [value.astype(np.float64).ravel() for value in read]
    edges = bins_of(values)
    finite = [value[np.isfinite(value)] for value in values]
    return Distribution(
        name=name,
        worker=worker,
        steps=np.array(steps, np.int64),
        quantiles=np.array([np.quantile(v, QUANTILES) if len(v) else [np.nan] * len(QUANTILES) for v in finite]),
        edges=edges,
        counts=np.array([np.histogram(value, edges)[0] for value in finite]),
        size=values[-1].size,
        zeros=np.array([int(np.count_nonzero(value == 0)) for value in values]),
        broken=np.array([len(value) - len(some) for value, some in zip(values, finite, strict=True)]),
        left_out=left_out,
    )


def bins_of(values: Sequence[Numbers]) -> Numbers:
    """Return the edges of bins from the least to the most finite value: even ones, or ones that grow away from 0."""
    finite = np.concatenate([value[np.isfinite(value)] for value in values]) if values else np.empty(0)
    if not len(finite):
        return np.linspace(0.0, 1.0, BINS + 1)
    low, high = float(finite.min()), float(finite.max())
    scale = max(abs(low), abs(high))
    if low == high:
        return np.sort(low * np.linspace(0.5, 1.0, BINS + 1)) if low else np.linspace(-0.5, 0.5, BINS + 1)
    sizes = np.abs(finite[finite != 0]) / scale
    middle = max(float(np.median(sizes)), _SMALLEST)
    if middle * _WIDE < 1:
        ends = np.arcsinh(low / scale / middle), np.arcsinh(high / scale / middle)
        edges = middle * np.sinh(np.linspace(ends[0], ends[1], BINS + 1))
    else:
        edges = np.linspace(low / scale, high / scale, BINS + 1)
    edges = np.clip(edges, -1.0, 1.0) * scale
    edges[0], edges[-1] = low, high
    return np.maximum.accumulate(np.clip(edges, low, high))


def _sizes(trial: Trial, name: str, steps: tuple[int, int]) -> tuple[tuple[str, Buckets], ...]:
    facts = trial.model_facts
    shapes = {one.name: one.size for one in facts.parameters} if facts else {}
    elements = shapes.get(name.removeprefix("gradient/"), 0)
    wanted = [("mean size of an element", "abs_mean", 1.0), ("largest element", "abs_max", 1.0)]
    if elements > 1:
        wanted.insert(1, ("root mean square", "l2", elements**-0.5))
    edges, found = edges_of(*steps, MOST_BUCKETS), []
    for title, statistic, factor in wanted:
        if statistic not in trial.parts.columns.recorded_statistics().get(name, ()):
            continue
        by_worker = trial.parts.columns.in_buckets([name], statistic, edges, mode="TRAIN").get(name, {})
        for numbers in list(by_worker.values())[:1]:
            low, mean, high = (each * factor for each in (numbers.low, numbers.mean, numbers.high))
            found.append((title, replace(numbers, low=low, mean=mean, high=high)))
    return tuple(found) if len(found) > 1 else ()
