"""The difference of a model's weights between two steps: from saved values exactly, else from recorded norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import RecordError, TensorNotSavedError
from trackside.trial.notebook import html_table
from trackside.trial.trial import Trial
from trackside.views.report.charts.line_chart import number
from trackside.views.report.distribution import Distribution, described

WEIGHTS = ("weights", "biases")
_NEAR_SHARE = 0.2  # of the steps asked for: saved values so near are better than norms that are nearer

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class TensorDifference:
    """The difference of one tensor between two steps.

    name          of the tensor
    first, last   steps at which it is known, the nearest ones to those asked for
    norm_first, norm_last   Euclidean norms there
    change        norm of the difference over the norm at `first`; None without saved values at both steps
    least_change  the same, at least: by the two norms alone
    most_change   the same, at most: by the updates of all steps between; None unless each was recorded
    cosine        between both; None without saved values
    turned_share  share of the elements that changed their sign; None without saved values
    broken        elements that are not finite at `last`; None without saved values
    divergence    Jensen-Shannon divergence of the two histograms, from 0 (the same) to 1; None without saved values
    """

    name: str
    first: int
    last: int
    norm_first: float
    norm_last: float
    least_change: float
    change: float | None = None
    most_change: float | None = None
    cosine: float | None = None
    turned_share: float | None = None
    broken: int | None = None
    divergence: float | None = None

    @property
    def size(self) -> float:
        """The change if it is known, else the least that it can be."""
        return self.least_change if self.change is None else self.change


@dataclass(frozen=True, eq=False)
class WeightDifference:
    """The differences of a model's weights between two steps, the largest first. In a notebook it is a table.

    steps  first and last step, as asked for
    found  one for each tensor with numbers at two steps
    """

    steps: tuple[int, int]
    found: tuple[TensorDifference, ...]

    def __repr__(self) -> str:
        largest = f": {self.found[0].name} changed most, by {number(self.found[0].size)}" if self.found else ""
        return f"<WeightDifference steps {self.steps[0]} to {self.steps[1]}, {len(self.found)} tensors{largest}>"

    def _repr_html_(self) -> str:
        head = ["tensor", "steps", "|Δw| / |w|", "norms", "cosine"]
        rows = [[one.name, f"{one.first} to {one.last}", *cells_of(one)[:3]] for one in self.found]
        return html_table(repr(self), head, rows)


def cells_of(one: TensorDifference) -> tuple[str, str, str, str, str]:
    """Return change, norms, cosine, share of turned signs and divergence as texts; "" for what is not known."""
    if one.change is not None:
        change = number(one.change)
    elif one.most_change is not None:
        change = f"{number(one.least_change)} to {number(one.most_change)}"
    else:
        change = f"at least {number(one.least_change)}"
    if one.broken:
        change = f"{one.broken:,} not finite"
    cosine = "" if one.cosine is None else f"{one.cosine:.4f}"
    turned = "" if one.turned_share is None else f"{one.turned_share:.1%}"
    divergence = "" if one.divergence is None else number(one.divergence)
    return change, f"{number(one.norm_first)} → {number(one.norm_last)}", cosine, turned, divergence


def weight_difference(trial: Trial, first: int, last: int) -> WeightDifference:
    """Return the differences of all weights and biases between two steps. Errors: those of the store."""
    names = dict.fromkeys(name for kind in WEIGHTS for name in trial.tensor_names(collection=kind))
    found = [one for name in names if (one := tensor_difference(trial, name, first, last)) is not None]
    found.sort(key=lambda one: (not one.broken, -(one.size if math.isfinite(one.size) else math.inf), one.name))
    return WeightDifference((first, last), tuple(found))


def tensor_difference(trial: Trial, name: str, first: int, last: int) -> TensorDifference | None:
    """Return the difference of one tensor; None unless it is known at two steps."""
    exact = _saved_pair(trial, name, first, last)
    room = abs(last - first) * _NEAR_SHARE
    if exact is not None and abs(exact[0] - first) + abs(exact[1] - last) <= max(room, _off(trial, name, first, last)):
        return _of_values(name, exact)
    return _of_norms(trial, name, first, last)


def both_values(trial: Trial, name: str, first: int, last: int) -> Distribution | None:
    """Return the values of one tensor at two steps; None unless they were saved at two."""
    pair = _saved_pair(trial, name, first, last)
    if pair is None:
        return None
    a, b, before, after = pair
    return described(name, "", [a, b], [before, after]) if a < b else described(name, "", [b, a], [after, before])


def _nearest(steps: Sequence[int], wanted: int) -> int:
    return min(steps, key=lambda step: (abs(step - wanted), step))


def _saved_pair(trial: Trial, name: str, first: int, last: int) -> tuple[int, int, Numbers, Numbers] | None:
    held = [one for one in trial.parts.saved.saved(name) if name in one.layout.records]
    worker = min((one.worker for one in held), default="")
    steps = sorted({one.step for one in held if one.worker == worker})
    if len(steps) < 2:
        return None
    a, b = _nearest(steps, first), _nearest(steps, last)
    if a == b:
        return None
    try:
        before, after = (value.astype(np.float64).ravel() for value in trial.values(name, steps=[a, b], worker=worker))
    except (RecordError, TensorNotSavedError):
        return None
    return (a, b, before, after) if before.shape == after.shape and before.size else None


def _off(trial: Trial, name: str, first: int, last: int) -> float:
    """Return how many steps the recorded norms are away from those asked for; infinite without any."""
    found = _norms(trial, name, first, last)
    return math.inf if found is None else abs(found[0] - first) + abs(found[1] - last)


def _of_values(name: str, pair: tuple[int, int, Numbers, Numbers]) -> TensorDifference:
    first, last, before, after = pair
    with np.errstate(all="ignore"):
        norms = float(np.linalg.norm(before)), float(np.linalg.norm(after))
        change = float(np.linalg.norm(after - before)) / norms[0] if norms[0] else math.inf
        cosine = float(before @ after / (norms[0] * norms[1])) if norms[0] * norms[1] else 0.0
        turned = float(np.mean(np.sign(before) * np.sign(after) < 0))
    return TensorDifference(
        name=name,
        first=first,
        last=last,
        norm_first=norms[0],
        norm_last=norms[1],
        least_change=_by_norms(*norms),
        change=change,
        cosine=cosine,
        turned_share=turned,
        broken=int(np.count_nonzero(~np.isfinite(after))),
        divergence=divergence_of(*described(name, "", [first, last], [before, after]).counts),
    )


def divergence_of(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Return the Jensen-Shannon divergence of two histograms over the same bins, in bits: from 0 to 1."""
    if not a.sum() or not b.sum():
        return 1.0 if a.sum() != b.sum() else 0.0
    p, q = a / a.sum(), b / b.sum()
    middle = (p + q) / 2

    def information(x: Numbers) -> float:
        some = x > 0
        return float(np.sum(x[some] * np.log2(x[some] / middle[some])))

    return max(0.0, (information(p) + information(q)) / 2)


def _norms(trial: Trial, name: str, first: int, last: int) -> tuple[int, int, float, float] | None:
    if "l2" not in trial.parts.columns.recorded_statistics().get(name, ()):
        return None
    for column in trial.columns(name, "l2", last_step=trial.recorded_through, mode="TRAIN")[:1]:
        a, b = (int(np.argmin(np.abs(column.steps - wanted))) for wanted in (first, last))
        if a != b:
            steps, values = column.steps, column.values
            return int(steps[a]), int(steps[b]), float(values[a]), float(values[b])
    return None


def _of_norms(trial: Trial, name: str, first: int, last: int) -> TensorDifference | None:
    found = _norms(trial, name, first, last)
    if found is None:
        return None
    a, b, before, after = found
    return TensorDifference(name, a, b, before, after, _by_norms(before, after), most_change=_path(trial, name, found))


def _by_norms(before: float, after: float) -> float:
    """Return the least relative change that two norms leave possible."""
    return abs(after - before) / before if before else (0.0 if not after else math.inf)


def _path(trial: Trial, name: str, pair: tuple[int, int, float, float]) -> float | None:
    """Return the sum of all updates between, over the norm before; None unless each of them was recorded."""
    a, b, before, _ = pair
    first, end = min(a, b), max(a, b)
    if "update_l2" not in trial.parts.columns.recorded_statistics().get(name, ()) or not before:
        return None
    for column in trial.columns(name, "update_l2", last_step=trial.recorded_through, mode="TRAIN")[:1]:
        inside = (column.steps >= first) & (column.steps < end)
        if int(inside.sum()) == end - first:
            return float(column.values[inside].sum()) / before
    return None
