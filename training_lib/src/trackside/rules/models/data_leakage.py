"""data-leakage: a column of the inputs gives the answer away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import TRAINING_MODES, has_several_aims
from trackside.rules.labels import as_classes
from trackside.rules.rule import FoldingRule, parameter
from trackside.trial.window import Window

_FEWEST_SAMPLES, _FEWEST_OF_ALL = 6, 24  # in a batch, in all of them
_MOST_FEATURES = 20_000  # of an input that has more, the first
_MOST_CANDIDATES = 64
_STRICTER_OF_SEQUENCES = 100
_MOST_TENSORS = 8  # of a collection
_FEWEST_BATCHES = 2  # one alone may be chance
_FEWEST_PLACES, _NEXT = 24, 0.99  # places of sequences in a batch; share of them with the next input as label
_WORDS = 1_000_000  # the number of the feature "holds word 0"; those of the places are below

FORETOLD = "share of the places whose answer is the next input"

Samples = NDArray[np.float64]
Saved = tuple[str, str, NDArray[np.generic]]  # worker, name, value


@dataclass(frozen=True)
class Suspects:
    """The pairs of input and labels so far, by name ("input < labels").

    batches   number of compared batches
    samples   number of samples in them
    features  features of the input that followed the labels in all of them
    foretold  number of batches with the next inputs as labels, by input
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
            features={**self.features, pair: kept[:_MOST_CANDIDATES]},
        )


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
           word is to be predicted), and a layer sees later places: a recurrent one that reads both ways, or an
           `nn.MultiheadAttention` over its own input without a mask. Attention by hand is not seen, and a model with
           several inputs (an encoder and a decoder) is left out.
        5. Programs with several optimizers, and labels with several numbers per sample, are left out.

        Amazon's Debugger has no such rule; its FeatureImportanceOverweight looks for a feature of XGBoost's that weighs
        too much.

    What to do:
        Find out when each feature is known. Take out features that are made from the label or known only after it.

    Example:
        ```python
        import numpy as np
        from trackside.rules.models.data_leakage import following

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
    severity = Severity.WARNING
    since = "0.1"
    likely_causes = (Cause.DATA_LEAKAGE,)
    shows_its_cause = True
    what_to_do = (
        "Find out when the values of the features named above are known: before the answer, or only with it.",
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
                    or not _are_comparable(inputs, labels)
                    or not _has_several_answers(labels)
                ):
                    continue
                pair = f"{name} < {answer}"
                shares = following(inputs, labels, explained=self.explained, is_series=inputs.ndim > 2 or name in rows)
                state = state.with_batch(pair, len(labels), tuple(shares))
                features = state.features[pair]
                is_enough = state.batches[pair] >= _FEWEST_BATCHES and state.samples[pair] >= _FEWEST_OF_ALL
                if is_enough and separates_all_classes(inputs, labels, features):
                    found.append(self._finding(window, name, worker, {number: shares[number] for number in features}))
        return state, found

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return data leakage. Name the layers that see later places, if the next input is the answer."""
        layers = _that_see_ahead(window) if findings[0].measure == FORETOLD else ()
        because = f"the next input is the answer, and {', '.join(layers[:3])} can see it" if layers else ""
        return (Suspicion(Cause.DATA_LEAKAGE, because),)

    def _foretold(
        self, state: Suspects, window: Window, given: Saved, answers: Sequence[Saved]
    ) -> tuple[Suspects, list[Finding]]:
        """Count a batch with the next inputs as labels, if some layer can see these."""
        worker, name, inputs = given
        share = max((share_of_next(inputs, labels) for of, _, labels in answers if of == worker), default=0.0)
        if not share > _NEXT or not _that_see_ahead(window):
            return state, []
        state = replace(state, foretold={**state.foretold, name: state.foretold.get(name, 0) + 1})
        if state.foretold[name] < _FEWEST_BATCHES:
            return state, []
        finding = Finding(
            subject=name,
            worker=worker,
            step=window.step,
            since_step=window.step,
            measure=FORETOLD,
            observed=share,
            relation=">",
            threshold=_NEXT,
        )
        return state, [finding]

    def lacks(self, window: Window) -> str:
        """Name the missing input: inputs and labels of the same steps."""
        has_both = window.tensors("rows") or (window.tensors("labels") and window.tensors("model_inputs"))
        return "" if has_both else f"inputs and labels of {_FEWEST_BATCHES} batches"

    def _finding(self, window: Window, name: str, worker: str, shares: Mapping[int, float]) -> Finding:
        return Finding(
            subject=name,
            worker=worker,
            step=window.step,
            since_step=window.step,
            measure="share of a feature that the labels explain",
            observed=max(shares.values()),
            relation=">",
            threshold=self.explained,
            statistics={feature_name(number): share for number, share in list(shares.items())[:10]},
        )


def following(
    inputs: NDArray[np.generic], labels: NDArray[np.generic], *, explained: float, is_series: bool = False
) -> dict[int, float]:
    """Return the features that follow the labels, with the share of their variance that labels explain.

    At most 64. `inputs`: shape (samples, ...); `labels`: classes or numbers, shape (samples,) or (samples, 1). The
    features are numbered as those of a row, "holds word w" of a text is 1,000,000 + w.
    """
    codes = as_classes(labels)
    if is_series and codes is None:
        explained = 1 - (1 - explained) / _STRICTER_OF_SEQUENCES
    found = {}
    for numbers, rows in _features(inputs):
        shares = (
            correlated_with(rows, labels.reshape(-1).astype(np.float64)) if codes is None else explained_by(rows, codes)
        )
        found.update({int(numbers[one]): float(shares[one]) for one in np.flatnonzero(shares > explained)})
    return dict(list(found.items())[:_MOST_CANDIDATES])


def feature_name(number: int) -> str:
    """Return the name of a feature for users."""
    return f"holds_word_{number - _WORDS}" if number >= _WORDS else f"feature_{number}"


def share_of_next(inputs: NDArray[np.generic], labels: NDArray[np.generic]) -> float:
    """Return the share of places in sequences with the next input as their label; 0 for inputs that are no sequences.

    inputs  whole numbers, shape (samples, places) or (places, samples)
    labels  as many as inputs, or one less for each sample; labels below zero do not count
    """
    if inputs.dtype.kind not in "iu" or labels.dtype.kind not in "iu" or inputs.ndim != 2 or min(inputs.shape) < 2:
        return 0.0
    words, answers = inputs.astype(np.int64), labels.astype(np.int64)
    shares = []
    for rows, is_turned in ((words, False), (words.T, True)):
        samples, length = rows.shape
        places = next((n for n in (length, length - 1) if answers.size == samples * n), None)
        if places is None:
            continue
        own = answers.reshape(places, samples).T if is_turned else answers.reshape(samples, places)
        own, following_words = own[:, : length - 1], rows[:, 1:]
        counts = own >= 0
        if counts.sum() >= _FEWEST_PLACES and len(np.unique(following_words)) > 2:
            shares.append(float((own == following_words)[counts].mean()))
    return max(shares, default=0.0)


def _that_see_ahead(window: Window) -> tuple[str, ...]:
    facts = window.facts
    return tuple([module.name for module in facts.modules if module.sees_ahead]) if facts is not None else ()


def separates_all_classes(inputs: NDArray[np.generic], labels: NDArray[np.generic], features: tuple[int, ...]) -> bool:
    """Return True if these features separate all classes of the batch.

    For number labels: True if any feature is given.
    """
    codes = as_classes(labels)
    if codes is None or not features:
        return bool(features)
    often = _often(codes)
    if len(often) < 2:
        return False
    kinds = [rows[:, np.isin(numbers, features)] for numbers, rows in _features(inputs)]
    chosen = np.concatenate(kinds, axis=1)
    means = np.array([chosen[codes == one].mean(axis=0) for one in often])
    are_separate = np.abs(means[:, None, :] - means[None, :, :]).max(axis=2) > 0.05 * chosen.std(axis=0).max()
    return bool(are_separate[~np.eye(len(often), dtype=bool)].all())


def explained_by(rows: Samples, codes: NDArray[np.int64]) -> Samples:
    """Return the share of each feature's variance that lies between classes, shape (features,); 0 if constant.

    Only classes with at least two samples count; zeros for fewer than two such classes.
    """
    often = _often(codes)
    kept = np.isin(codes, often)
    if len(often) < 2 or kept.sum() < _FEWEST_SAMPLES:
        return np.zeros(rows.shape[1])
    rows, codes = rows[kept], codes[kept]
    within = np.zeros(rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # features beyond 1e154: infinity varies no more than itself
        total = np.square(rows - rows.mean(axis=0)).sum(axis=0)
        for one in often:
            of_class = rows[codes == one]
            within += np.square(of_class - of_class.mean(axis=0)).sum(axis=0)
        varies = np.isfinite(total) & (total > 1e-12 * np.square(rows).sum(axis=0))
    return np.where(varies, 1 - within / np.where(varies, total, 1.0), 0.0)


def correlated_with(rows: Samples, numbers: Samples) -> Samples:
    """Return the squared correlation of each feature with the numbers, shape (features,); 0 if either is constant."""
    centred, target = rows - rows.mean(axis=0), numbers - numbers.mean()
    sizes = np.square(centred).sum(axis=0) * float(np.square(target).sum())
    varies = sizes > 1e-12 * np.square(rows).sum(axis=0) * float(np.square(numbers).sum())
    return np.where(varies, np.square(target @ centred) / np.where(varies, sizes, 1.0), 0.0)


def _saved(window: Window, collection: str) -> Iterator[Saved]:
    """Yield (worker, name, whole tensor) of a collection's first tensors, as saved at this very step.

    Only the first few count: a module called a hundred times a step does not hold one batch and its labels.
    """
    for name in window.tensors(collection)[:_MOST_TENSORS]:
        for column in window.statistic(name, "mean", last=1):
            if column.steps[-1] != window.step:
                continue
            try:
                yield column.worker, name, window.value(name, worker=column.worker)
            except TensorNotSavedError:  # reductions only
                continue


def _are_comparable(inputs: NDArray[np.generic], labels: NDArray[np.generic]) -> bool:
    if inputs.dtype.kind not in "fiu" or inputs.ndim < 2 or not inputs.size or labels.dtype.kind not in "iubf":
        return False
    is_one_each = labels.ndim == 1 or (labels.ndim == 2 and (labels.shape[1] == 1 or as_classes(labels) is not None))
    return is_one_each and len(labels) == len(inputs) >= _FEWEST_SAMPLES and bool(np.isfinite(labels).all())


def _features(inputs: NDArray[np.generic]) -> Iterator[tuple[NDArray[np.int64], Samples]]:
    """Yield (numbers, a column for each feature) of the value at each place, then of the words in each text."""
    flat = inputs.reshape(len(inputs), -1)[:, :_MOST_FEATURES]
    yield np.arange(flat.shape[1]), np.nan_to_num(flat.astype(np.float64))
    if inputs.dtype.kind in "iu" and inputs.ndim == 2 and inputs.shape[1] > 1:
        words, places = np.unique(flat, return_inverse=True)
        if len(words) <= _MOST_FEATURES and words[0] >= 0:
            held = np.zeros((len(flat), len(words)))
            held[np.arange(len(flat))[:, None], places.reshape(flat.shape)] = 1
            yield words.astype(np.int64) + _WORDS, held


def _has_several_answers(labels: NDArray[np.generic]) -> bool:
    """Return False for a batch with too few samples of several classes to judge."""
    codes = as_classes(labels)
    if codes is None:
        return True
    often = _often(codes)
    return len(often) > 1 and int(np.isin(codes, often).sum()) >= _FEWEST_SAMPLES


def _often(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    classes, counts = np.unique(codes, return_counts=True)
    return np.asarray(classes[counts > 1], np.int64)
