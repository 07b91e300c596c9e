"""data-leakage: a column of the inputs gives the answer away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.observations import SEES_AHEAD
from trackside.contracts.run.recorded_names import ATTENTION_AHEAD
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import FoldingRule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import ALL_BUT_CHANCE, LEAK_CANDIDATES, LEAK_OF_ALL, MOST_READ, NEARLY_ALL, SEVERAL
from trackside.situation.leaks import (
    are_comparable,
    feature_name,
    following,
    has_several_answers,
    separates_all_classes,
    share_of_inputs,
)
from trackside.situation.losses.losses import TRAINING_MODES
from trackside.trial.window import Window

FORETOLD, REPEATED, LAGGING = (
    "share of the places whose answer is the next input",
    "share of the places whose answer is their own input",
    "share of the places whose answer is the input before",
)

_ATTENTION = "its attention"

Saved = tuple[str, str, NDArray[np.generic]]  # worker, name, value


@dataclass(frozen=True)
class Suspects:
    """The pairs of input and labels so far, by name ("input < labels").

    batches   number of compared batches
    samples   number of samples in them
    features  features of the input that followed the labels in all of them
    foretold  number of batches with inputs as labels, by the measure and the input
    """

    batches: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, int] = field(default_factory=dict)
    features: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    foretold: Mapping[str, int] = field(default_factory=dict)

    def with_batch(self, pair: str, samples: int, features: tuple[int, ...]) -> Suspects:
        """Return these after a further batch of `pair`, with the features that followed the labels in every batch."""
        before = self.features.get(pair)
        kept = features if before is None else tuple([one for one in before if one in set(features)])
        return replace(
            self,
            batches={**self.batches, pair: self.batches.get(pair, 0) + 1},
            samples={**self.samples, pair: self.samples.get(pair, 0) + samples},
            features={**self.features, pair: kept[:LEAK_CANDIDATES]},
        )


def _sees_ahead(known: Known) -> Answer:
    layers = _that_see_ahead(known.window) or (_ATTENTION,)
    return f"the next input is the answer, and {', '.join(layers[:3])} can see it"


@dataclass(frozen=True)
class DataLeakage(FoldingRule):
    """The inputs hold the answer: a feature follows the labels exactly, or the next word can be seen.

    Why it matters:
        A column that was made from the label, or that is only known once the answer is (the date of a discharge, a
        case number), makes a model look perfect in every evaluation, for the column is in the evaluation data too. It
        fails on the day that it is used.

    How it decides:
        Compares the model's inputs (a row for each sample: numbers, or words of a text) with the labels of the same
        batch, in the few batches of which both were saved. A feature is a number, a word at a place, or that a text
        holds a word at any place:

        1. Numbers to regress, one per sample: a feature follows them where the square of its correlation with them is
           above e = `explained`. For sequences, and of XGBoost, above 1 - (1 - e) / 100: the next value of a series
           is much like its last.
        2. Classes: a feature follows them where more than `explained` of its variance lies between the classes, that
           is, where it is all but constant within each. Classes with a single sample in the batch are left out.
        3. It fires where the same features follow the labels in two batches and more, of 24 samples in all at least,
           and together separate every class from every other.
        4. Sequences: it also fires where, in two batches, 99 % of the labels are the input at the next place (the next
           word is to be predicted), and a layer sees later places: a recurrent one that reads both ways, an
           `nn.MultiheadAttention` over its own input without a mask, an `nn.Conv1d` that is padded on both sides, or
           attention by `scaled_dot_product_attention` or by hand, in the graph of the loss, where more than nine rows
           in ten may see the next place (a prefix that sees all of itself has fewer). A model with several inputs (an
           encoder and a decoder) is left out.
        5. The same where the labels are the inputs at their own place, or at the place before, whatever the layers are:
           labels of a next word that were shifted not at all, or the wrong way. A model that is to restore words has
           some of them hidden, so that fewer than 99 % are the same.
        6. Programs with several optimizers, and labels with several numbers per sample, are left out.

        Amazon's Debugger has no such rule; its FeatureImportanceOverweight looks for a feature of XGBoost's that weighs
        too much.

    Example:
        ```python
        import numpy as np
        from trackside.situation.leaks import following

        random = np.random.default_rng(0)
        inputs, labels = random.normal(size=(64, 8)), random.integers(0, 2, size=64)
        assert not following(inputs, labels, explained=0.999)
        inputs[:, 3] = labels
        assert list(following(inputs, labels, explained=0.999)) == [3]
        ```

    References:
        - Kaufman, Rosset, Perlich: Leakage in data mining (2011).
        - Kapoor, Narayanan: Leakage and the reproducibility crisis in machine-learning-based science (2023).
    """

    rule_id = "data-leakage"
    code = "TS303"
    watches = ("model_inputs", "rows")
    save_interval = 50
    needs = (
        CollectionRequest("model_inputs", Schedule(50, end_step=101)),
        CollectionRequest("rows", Schedule(50, end_step=101)),  # of a boosted model
        CollectionRequest("labels", Schedule(50, end_step=101)),
    )
    since = "0.1"
    likely_causes = (Cause.DATA_LEAKAGE, Cause.WRONG_LABELS)
    suspects = (
        Suspect(Cause.DATA_LEAKAGE, _sees_ahead, (FORETOLD,)),
        Suspect(Cause.WRONG_LABELS, "the labels are the inputs: {comparison}", (REPEATED, LAGGING)),
        Suspect(Cause.DATA_LEAKAGE),
    )
    shows_its_cause = True
    what_to_do = (
        "Find out when the values of the features named above are known: before the answer, or only with it.",
        "If the next word is to be predicted, let the labels be the inputs moved on by one place.",
        "If the next word is to be predicted, give attention a causal mask and read forwards only.",
        "Take out features made from the label, and split the data before any processing.",
    )

    explained: float = parameter(
        0.9995,
        "share of a feature's variance that the labels explain, above which it follows them",
        minimum=0.5,
        maximum=1,
    )

    def start(self) -> Suspects:
        """Return the state without a batch."""
        return Suspects()

    def fold(self, state: Suspects, window: Window) -> tuple[Suspects, Iterable[Finding]]:
        """Compare the inputs of this step with its labels."""
        if window.mode not in TRAINING_MODES or has_several_aims(window):
            return state, []
        found = []
        rows = set(window.tensors("rows"))  # a series is a table of its last values there
        answers = [*_saved(window, "labels"), *_saved(window, "rows")]
        given = [one for kind in self.watches for one in _saved(window, kind)] if answers else []
        for worker, name, inputs in given:
            if sum(of == worker for of, _, _ in given) == 1:
                state, seen = self._foretold(state, window, (worker, name, inputs), answers)
                found += seen
            for of, answer, labels in answers:
                if (
                    of != worker
                    or answer == name
                    or not are_comparable(inputs, labels)
                    or not has_several_answers(labels)
                ):
                    continue
                pair = f"{name} < {answer}"
                shares = following(inputs, labels, explained=self.explained, is_series=inputs.ndim > 2 or name in rows)
                state = state.with_batch(pair, len(labels), tuple(shares))
                features = state.features[pair]
                is_enough = state.batches[pair] >= SEVERAL and state.samples[pair] >= LEAK_OF_ALL
                if is_enough and separates_all_classes(inputs, labels, features):
                    found.append(self._finding(window, name, worker, {number: shares[number] for number in features}))
        return state, found

    def _foretold(
        self, state: Suspects, window: Window, given: Saved, answers: Sequence[Saved]
    ) -> tuple[Suspects, list[Finding]]:
        """Count a batch with inputs as labels: its own, those before, or the next ones if some layer can see them."""
        worker, name, inputs = given
        own = [labels for of, _, labels in answers if of == worker]
        for measure, ahead in ((FORETOLD, 1), (REPEATED, 0), (LAGGING, -1)):
            share = max((share_of_inputs(inputs, labels, ahead=ahead) for labels in own), default=0.0)
            if not share > ALL_BUT_CHANCE or (measure == FORETOLD and not _sight_of_next(window)):
                continue
            seen = f"{measure}: {name}"
            state = replace(state, foretold={**state.foretold, seen: state.foretold.get(seen, 0) + 1})
            if state.foretold[seen] >= SEVERAL:
                return state, [finding_of(window, name, measure, share, above=ALL_BUT_CHANCE, worker=worker)]
        return state, []

    def lacks(self, window: Window) -> str:
        """Name the missing input: inputs and labels of the same training steps. Others are no sign of a recovery."""
        has_both = window.tensors("rows") or (window.tensors("labels") and window.tensors("model_inputs"))
        is_judged = has_both and window.mode in TRAINING_MODES
        return "" if is_judged else f"inputs and labels of {SEVERAL} batches"

    def _finding(self, window: Window, name: str, worker: str, shares: Mapping[int, float]) -> Finding:
        return finding_of(
            window,
            name,
            "share of a feature that the labels explain",
            max(shares.values()),
            above=self.explained,
            worker=worker,
            statistics={feature_name(number): share for number, share in list(shares.items())[:10]},
        )


def _sight_of_next(window: Window) -> bool:
    """Return True if a layer sees later places, or attention that of the next word."""
    columns = window.statistic(ATTENTION_AHEAD, "mean", last=1)
    return bool(_that_see_ahead(window)) or any(column.values[-1] > NEARLY_ALL for column in columns)


def _that_see_ahead(window: Window) -> tuple[str, ...]:
    facts = window.facts
    return tuple([module.name for module in facts.modules if SEES_AHEAD.of(module)]) if facts is not None else ()


def _saved(window: Window, collection: str) -> Iterator[Saved]:
    """Yield (worker, name, whole tensor) of a collection's first tensors, as saved at this very step.

    Only the first few count: a module called a hundred times a step does not hold one batch and its labels.
    """
    for name in window.tensors(collection)[:MOST_READ]:
        for column in window.statistic(name, "mean", last=1):
            if column.steps[-1] != window.step:
                continue
            try:
                yield column.worker, name, window.value(name, worker=column.worker)
            except TensorNotSavedError:  # reductions only
                continue
