"""class-imbalance: some classes hardly ever come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.observations import CLASS_WEIGHTS, DRAW_WEIGHTS
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import FoldingRule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import ERRORS, HALF_AS_MUCH_AGAIN, NEARLY_ALL, TRACE, TWICE, VALUES_OF_A_LEVEL
from trackside.situation.labels import SeenLabels, with_labels_of
from trackside.trial.window import Window

_OF_SEQUENCES = frozenset({"embedding", "recurrent", "attention"})
_OF_CLASSES = frozenset({"CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"})


UNEVEN, WEIGHTED, TWICE_EVEN, IGNORED, ALONE = (
    "commonest class over rarest",
    "commonest class over rarest as weighted",
    "largest weight of a class over the smallest, of classes drawn evenly",
    "share of the labels that the loss ignores",
    "share of the labels that are of one class",
)


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
        3. A loss that was given weights of classes or samples (`weight`, `pos_weight`) makes up for it: silent. But
           where the weights of classes rise with their counts, though the commonest class certainly comes twice as
           often as the rarest, they are upside down: it fires with the ratio that they make of r. And where a
           WeightedRandomSampler draws the classes evenly already, by weights as unlike as those of the loss (a third
           more or less), their imbalance is made up for twice.
        4. Labels of a class that the loss ignores (`ignore_index`) are in no count. It fires where they are more than
           5 % of all and come in random order among the others; in a row they are padding, as is expected where the
           model has layers for sequences.
        5. Where the number of samples of each class in the whole training set is at hand (XGBoost), it decides: the
           labels that are saved there are those of the evaluated set, which is not filled up when a small class is.
        6. It fires where all of them, in ten batches and more, are of one class, and the scores come straight from a
           linear layer: its bias alone learns that. A class that stands for a place among candidates (a positive before
           its negatives, the better of two) is no such label, and its scores are products or differences.
        7. Labels that are no classes (numbers to regress, more than 20 different ones, letters or words of a text) are
           left out, and so are those of a model that answers with what it reads (as many classes as rows of a table for
           the inputs), those below zero (places that do not count) and programs with several optimizers.

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
    likely_causes = (Cause.CLASS_IMBALANCE, Cause.WRONG_LOSS, Cause.WRONG_LABELS)
    suspects = (
        Suspect(Cause.WRONG_LOSS, "the weights of classes rise with their counts: {comparison}", (WEIGHTED,)),
        Suspect(Cause.WRONG_LOSS, "the sampler makes up for it already, and draws classes evenly", (TWICE_EVEN,)),
        Suspect(Cause.WRONG_LOSS, "the loss ignores labels of a class that comes: {comparison}", (IGNORED,)),
        Suspect(Cause.WRONG_LABELS, "all labels that were seen are of one class", (ALONE,)),
        Suspect(Cause.CLASS_IMBALANCE, only=(UNEVEN,)),
    )
    what_to_do = (
        "Weight the classes in the loss, or sample them evenly (WeightedRandomSampler): one of both.",
        "Where all labels are of one class, add samples of the others: draw negatives, or read all folders.",
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
        names = window.tensors("labels")
        found = _as_counted(window, counts, limit=self.threshold_imbalance)
        if found is None and len(seen.batches) >= VALUES_OF_A_LEVEL and _is_of_one_class(window, names, seen, counts):
            found = ALONE, 1.0, NEARLY_ALL
        if found is None and seen.ignored_share > TRACE and not _is_of_sequences(window):
            found = IGNORED, seen.ignored_share, TRACE
        if seen.samples < self.samples or not names or found is None or _continues_its_inputs(window):
            return seen, []
        details = Imbalance(_counts_alike(window))
        measure, observed, limit = found
        finding = finding_of(
            window,
            names[0],
            measure,
            observed,
            above=limit,
            since=seen.batches[0][0] if seen.batches else window.step,
            statistics={
                **details.numbers(),
                **{f"class_{name}": float(count) for name, count in sorted(counts.items())[:20]},
            },
            grade=Severity.WARNING if measure != UNEVEN or details.knows_the_loss else Severity.INFO,
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


def upside_down(counts: Mapping[str, int], weights: Sequence[float]) -> float | None:
    """Return the imbalance that weights make of counts, where they rise with them and make it worse; else None.

    Args:
        counts: Number of labels by class, whose names are numbers.
        weights: Weight of each class.
    """
    known = {name: weights[int(name)] for name in counts if int(name) < len(weights)}
    if len(known) < len(counts) or certain_imbalance(counts) <= TWICE or min(known.values(), default=0.0) <= 0:
        return None
    pairs = [
        (counts[one] - counts[other]) * (known[one] - known[other])
        for one, other in combinations(counts, 2)
        if abs(counts[one] - counts[other]) > ERRORS * math.sqrt(counts[one] + counts[other])
    ]
    rising, falling = (sum(sign * pair > 0 for pair in pairs) for sign in (1, -1))
    weighted = [counts[name] * weight for name, weight in known.items()]
    ratio = max(weighted) / min(weighted)
    return ratio if rising > falling and ratio > imbalance(counts) else None


def twice_even(counts: Mapping[str, int], weights: Sequence[float], drawn: float) -> bool:
    """Return True if classes are drawn evenly by weights, and a loss weighs them as much once more.

    Args:
        counts: Number of labels by class, as drawn.
        weights: Weight of each class in the loss.
        drawn: Largest weight of a row in the draw over the smallest.
    """
    if min(weights, default=0.0) <= 0 or len(counts) < len(weights):
        return False
    ratio = max(weights) / min(weights)
    is_same = min(ratio, drawn) > TWICE and max(ratio, drawn) < HALF_AS_MUCH_AGAIN * min(ratio, drawn)
    return is_same and certain_imbalance(counts) < HALF_AS_MUCH_AGAIN


def _as_counted(window: Window, counts: Mapping[str, int], *, limit: float) -> tuple[str, float, float] | None:
    """Return the measure of the imbalance, its value and its limit; None if the loss counts classes evenly."""
    losses = window.facts.losses if window.facts is not None else ()
    if not any(loss.is_weighted for loss in losses):
        is_uneven = certain_imbalance(counts) > limit
        return (UNEVEN, imbalance(counts), limit) if is_uneven else None
    found = {CLASS_WEIGHTS.of(loss) for loss in losses if loss.is_weighted}
    weights = found.pop() if len(found) == 1 else ()
    ratio = upside_down(counts, weights)
    if ratio is not None:
        return WEIGHTED, ratio, imbalance(counts)
    drawn = DRAW_WEIGHTS.of(window.facts.program) if window.facts is not None else 0.0
    return (TWICE_EVEN, max(weights) / min(weights), TWICE) if twice_even(counts, weights, drawn) else None


def _is_of_one_class(window: Window, names: Sequence[str], seen: SeenLabels, counts: Mapping[str, int]) -> bool:
    """Return True if all labels of a layer of scores are of one class."""
    if len(counts) != 1 or seen.ignored or len(names) != 1 or window.facts is None:
        return False
    return any(loss.type_name in _OF_CLASSES and loss.input_from == "linear" for loss in window.facts.losses)


def _training_set(window: Window) -> Mapping[str, int]:
    """Return the number of samples of each class in the training set, where the facts have it."""
    losses = window.facts.losses if window.facts is not None else ()
    return next(({str(k): n for k, n in enumerate(loss.classes) if n} for loss in losses if loss.classes), {})


def _is_of_sequences(window: Window) -> bool:
    """Return True if the model has layers for sequences."""
    return window.facts is not None and any(module.role in _OF_SEQUENCES for module in window.facts.modules)


def _continues_its_inputs(window: Window) -> bool:
    """Return True for as many classes as rows in a table for the inputs: answers are words, too."""
    facts = window.facts
    tables = {module.in_features for module in facts.modules if module.role == "embedding"} if facts else set()
    return facts is not None and any(loss.class_count in tables for loss in facts.losses if loss.class_count)


def _counts_alike(window: Window) -> bool:
    """Return True if a loss of classes is a built-in mean or sum, or if no loss is known."""
    losses = [loss for loss in window.facts.losses if loss.name] if window.facts is not None else []
    return not losses or any(loss.type_name in _OF_CLASSES and loss.reduction != "none" for loss in losses)
