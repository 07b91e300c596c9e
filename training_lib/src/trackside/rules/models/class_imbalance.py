"""class-imbalance: some classes hardly ever come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import FoldingRule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import ERRORS
from trackside.situation.labels import SeenLabels, with_labels_of
from trackside.trial.window import Window

_OF_CLASSES = frozenset({"CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"})


@dataclass(frozen=True)
class Imbalance(Details):
    """Details of a finding.

    knows_the_loss  True if the loss is known to count all classes alike
    """

    knows_the_loss: bool = False


@dataclass(frozen=True)
class ClassImbalance(FoldingRule):
    """Some classes come far less often than others, and the loss does not make up for it.

    Why it matters:
        A model that never names a class of one sample in fifty is right in 98 % of all cases, and worthless for what it
        was built for. Loss and accuracy look good all along.

    How it decides:
        Counts the labels of the training batches that were saved, of all workers, since the newest optimizer was made:
        a phase of the training may have another head and other classes.

        1. After `samples` labels at least, r is the count of the commonest class over that of the rarest that came at
           all.
        2. It fires where r > `threshold_imbalance`, with the rarest class's count m put up by its error, 2 sqrt(m).
        3. A loss that was given weights of classes or samples (`weight`, `pos_weight`) makes up for it: silent.
        4. Where the number of samples of each class in the whole training set is at hand (XGBoost), it decides: the
           labels that are saved there are those of the evaluated set, which is not filled up when a small class is.
        5. Labels that are no classes (numbers to regress, more than 20 different ones, letters or words of a text) are
           left out, and so are those below zero (places that do not count) and programs with several optimizers.

        A warning where a loss of the framework's counts each sample alike, by itself or as a part of a sum; information
        where the loss is composed of plain operations (a focal loss), since it may make up for the imbalance or not.

        Amazon's ClassImbalance fires at a ratio of 10, or where a class is mispredicted in 70 % of its cases; it is the
        preset `aws-docs`.

    Example:
        ```python
        from trackside.rules.models.class_imbalance import imbalance

        assert imbalance({"0": 950, "1": 50}) == 19.0
        assert imbalance({"0": 500, "1": 500}) == 1.0
        ```

    References:
        - He, Garcia: Learning from imbalanced data (2009).
        - Amazon SageMaker Debugger, built-in rule ClassImbalance: `samples` and `threshold_imbalance`.
    """

    rule_id = "class-imbalance"
    code = "TS301"
    watches = ("labels",)
    save_interval = 10
    needs = (CollectionRequest("labels", Schedule(10, end_step=401)),)
    since = "0.1"
    patience = 2
    likely_causes = (Cause.CLASS_IMBALANCE,)
    what_to_do = (
        "Weight the classes in the loss, or sample them evenly (WeightedRandomSampler).",
        "Judge the model class by class: recall of the rare ones, not accuracy.",
    )

    samples: int = parameter(100, "labels that must have come", minimum=2)
    threshold_imbalance: float = parameter(
        10.0, "count of the commonest class over that of the rarest, above which it fires", minimum=1
    )

    def start(self) -> SeenLabels:
        """Return the state without a label."""
        return SeenLabels()

    def fold(self, state: SeenLabels, window: Window) -> tuple[SeenLabels, Iterable[Finding]]:
        """Count the labels of this step."""
        if has_several_aims(window):
            return state, []
        seen = with_labels_of(state, window)
        counts = _training_set(window) or seen.counts
        ratio = imbalance(counts)
        names = window.tensors("labels")
        is_certain = certain_imbalance(counts) > self.threshold_imbalance
        if seen.samples < self.samples or not is_certain or not names or _is_weighted(window):
            return seen, []
        details = Imbalance(_counts_alike(window))
        finding = finding_of(
            window,
            names[0],
            "commonest class over rarest",
            ratio,
            above=self.threshold_imbalance,
            since=seen.batches[0][0] if seen.batches else window.step,
            statistics={
                **details.numbers(),
                **{f"class_{name}": float(count) for name, count in sorted(counts.items())[:20]},
            },
            grade=Severity.WARNING if details.knows_the_loss else Severity.INFO,
        )
        return seen, [finding]

    def lacks(self, window: Window) -> str:
        """Name the missing input: labels."""
        return "" if window.tensors("labels") else f"{self.samples} class labels"


def imbalance(counts: Mapping[str, int]) -> float:
    """Return the count of the commonest class over that of the rarest; 1 for fewer than two classes."""
    return max(counts.values()) / min(counts.values()) if len(counts) > 1 else 1.0


def certain_imbalance(counts: Mapping[str, int]) -> float:
    """Return the imbalance with the rarest count raised by its error, since few samples of a class may be chance."""
    if len(counts) < 2:
        return 1.0
    rarest = min(counts.values())
    return max(1.0, max(counts.values()) / (rarest + ERRORS * math.sqrt(rarest)))


def _training_set(window: Window) -> Mapping[str, int]:
    """Return the number of samples of each class in the training set, where the facts have it."""
    losses = window.facts.losses if window.facts is not None else ()
    return next(({str(k): n for k, n in enumerate(loss.classes) if n} for loss in losses if loss.classes), {})


def _is_weighted(window: Window) -> bool:
    facts = window.facts
    return facts is not None and any(loss.is_weighted for loss in facts.losses)


def _counts_alike(window: Window) -> bool:
    """Return True if a loss of classes is a built-in mean or sum, or if no loss is known."""
    losses = [loss for loss in window.facts.losses if loss.name] if window.facts is not None else []
    return not losses or any(loss.type_name in _OF_CLASSES and loss.reduction != "none" for loss in losses)
