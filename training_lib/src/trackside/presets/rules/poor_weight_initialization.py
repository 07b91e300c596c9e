"""poor-weight-initialization, as Amazon documents it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, at_step, selected, values_at_step
from trackside.situation.losses.losses import TRAINING_MODES
from trackside.trial.window import Column, Window

_DEFAULT_REGEX = ".*relu_input"  # the names of Amazon's own fork of MXNet
_ROLE = "activation_inputs"


@dataclass(frozen=True)
class DocumentedPoorWeightInitialization(Rule):
    """The first steps look as after a bad initialisation: uneven variances, flat gradients, or a loss that stays.

    Documented: over the first `steps` steps, fires where any of three holds.

    (a) The largest variance of a layer is more than `threshold` times the smallest. The table of parameters says of the
    weights, the text of the inputs of activations; `activation_inputs_regex` is there for the latter, which are taken.
    (b) The smallest distance between the 5th and the 95th percentile of a gradient is below `distribution_range`.
    (c) The loss has not decreased for `patience` steps.

    Steps are those at which the tensor was saved, for at the default distance of 500 there is but one within the first
    ten. Gradients are not saved by default; (b) is judged where something else requests them. Left at its default,
    `activation_inputs_regex` means the inputs of activation modules; names that match count too.
    """

    rule_id = "poor-weight-initialization"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest(_ROLE, Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.BAD_INITIALIZATION, Cause.SYMMETRIC_INITIALIZATION)
    what_to_do = ("Use Kaiming's initialisation for ReLU and Xavier's for tanh.",)

    activation_inputs_regex: str = parameter(_DEFAULT_REGEX, "regexes of inputs of activations, separated by commas")
    threshold: float = parameter(10.0, "largest variance of a layer over the smallest, above which it fires", minimum=0)
    distribution_range: float = parameter(
        0.001, "distance of the 5th and 95th percentile of a gradient below which it fires", minimum=0
    )
    patience: int = parameter(5, "steps without a decrease of the loss", minimum=1)  # type: ignore[misc]  # Amazon's name
    steps: float = parameter(10.0, "first steps that are looked at", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for the variances, one per gradient and one per loss."""
        if window.mode not in TRAINING_MODES:
            return []
        return [*self._variances(window), *self._gradients(window), *self._losses(window)]

    def lacks(self, window: Window) -> str:
        """Name the missing input: any watched tensor at the first steps."""
        names = (*self._inputs(window), *window.tensors("gradients"), *window.tensors("losses"))
        return "" if any(self._early(window, names, "mean")) else f"a tensor among the first {self.steps:g} saved"

    def _inputs(self, window: Window) -> tuple[str, ...]:
        role = _ROLE if self.activation_inputs_regex == _DEFAULT_REGEX else ""
        return selected(window, collection_names=role, tensor_regex=self.activation_inputs_regex)

    def _early(self, window: Window, names: Iterable[str], statistic: str) -> list[Column]:
        """Return the columns saved at this step, if it is one of the first."""
        return [column for column in at_step(window, names, statistic) if len(column.steps) <= self.steps]

    def _variances(self, window: Window) -> list[Finding]:
        layers = {c.tensor: float(c.values[-1]) ** 2 for c in self._early(window, self._inputs(window), "std")}
        smallest, largest = (
            min(layers, key=layers.__getitem__, default=""),
            max(layers, key=layers.__getitem__, default=""),
        )
        ratio = variance_ratio(list(layers.values()))
        if ratio is None or not ratio > self.threshold:
            return []
        statistics = {f"variance of {name}": layers[name] for name in (smallest, largest)}
        found = _finding(largest, window.step, "variance over the smallest layer's", (ratio, ">", self.threshold))
        return [replace(found, statistics=statistics)]

    def _gradients(self, window: Window) -> list[Finding]:
        early = {c.tensor for c in self._early(window, window.tensors("gradients"), "mean")}
        spreads = {saved.tensor: spread(saved.value) for saved in values_at_step(window, sorted(early))}
        measure, least = "distance of the 5th to the 95th percentile", self.distribution_range
        found = {name: each for name, each in spreads.items() if each is not None and each < least}
        return [_finding(name, window.step, measure, (each, "<", least)) for name, each in found.items()]

    def _losses(self, window: Window) -> list[Finding]:
        found = []
        for column in self._early(window, window.tensors("losses"), "mean"):
            gain = gain_of(column.values, patience=self.patience)
            if gain is not None and not gain > 0:
                measure = f"decrease of the loss in {self.patience} steps"
                finding = _finding(column.tensor, window.step, measure, (gain, "<", math.ulp(0.0)))
                since = int(column.steps[-self.patience - 1])
                found.append(replace(finding, worker=column.worker, since_step=since, series=column.series))
        return found


def _finding(subject: str, step: int, measure: str, compared: tuple[float, str, float]) -> Finding:
    observed, relation, threshold = compared
    return Finding(subject, step, step, measure, observed, relation, threshold)


def variance_ratio(variances: Sequence[float]) -> float | None:
    """Return the largest variance over the smallest, or infinity; None for fewer than two layers, or only zeros."""
    finite = [variance for variance in variances if math.isfinite(variance)]
    if len(finite) < 2 or not max(finite) > 0:
        return None
    return max(finite) / min(finite) if min(finite) > 0 else math.inf


def spread(gradient: NDArray[np.generic]) -> float | None:
    """Return the distance between the 5th and the 95th percentile; None if any value is not finite."""
    values = gradient.astype(np.float64)
    if not values.size or not np.isfinite(values).all():
        return None
    low, high = np.percentile(values, [5, 95])
    return float(high - low)


def gain_of(losses: NDArray[np.float64], *, patience: int) -> float | None:
    """Return the fall of the best loss, from before the newest `patience` losses to these.

    None without a finite loss before. `losses`: shape (n,), oldest first. A loss that is not finite is worse than any
    other.
    """
    if len(losses) <= patience:
        return None
    ranked = np.where(np.isfinite(losses), losses, np.inf)
    before, now = float(ranked[:-patience].min()), float(ranked[-patience:].min())
    return before - now if math.isfinite(before) else None
