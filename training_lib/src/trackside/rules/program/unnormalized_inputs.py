"""unnormalized-inputs: inputs of the model: too large, constant, no numbers, or unlike those of evaluation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import has_several_aims, learned_share
from trackside.rules.medians import median
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

CONSTANT, SPREAD, SIZE, BROKEN, UNLIKE = (
    "deviation between the samples of a batch",
    "largest feature's size over the middle one's",
    "root mean square of the inputs",
    "non-finite inputs",
    "ratio of the inputs' deviations in training and in evaluation",
)
_FEWEST_BATCHES = 2  # of training, so that their own spread is known
_FEWEST_SAMPLES = 8
_NEARLY_NOTHING = 1e-7  # of the inputs' own size
_LEARNED = 0.5
_MASKED = -1e4
_MOST_VALUES = 1 << 20


@dataclass(frozen=True)
class UnnormalizedInputs(Rule):
    """The model gets inputs that are too large, uneven, all the same, or unlike those of evaluation.

    Why it matters:
        A feature that is a thousand times as large as the others drives all weights; the rest is not seen for long.
        Inputs that are the same for each sample, or hold a NaN, teach nothing at all. Both are mistakes of the
        preparation that no shape check finds. Where training and evaluation prepare the same data in two ways, the
        score is that of another task.

    How it decides:
        On the inputs of the model (whole batches of `model_inputs`, saved now and then; batches of fewer than 8 samples
        are left out, and integers, which are tokens, for all but point 2):

        Masks of attention (zeros, and one number below -10,000 or minus infinity) are left out, and so is what another
        trained module computed: the inputs of a head are activations.

        1. Any value that is not finite is a finding.
        2. Constant: the deviation between the samples, over all features, is below 1e-7 of the inputs' size, and that
           of all other inputs at this step is too: positions and masks are the same for each sample, and mean no harm.
           Of tokens each batch before must have been the same: generations that share one prompt differ from the next.
           Programs with several optimizers are left out: what one model makes for another is no data.
        3. Too large: the root mean square is above `threshold_size`.
        4. Uneven, for inputs of shape (samples, features): the root mean square of the largest feature is more than
           `threshold_ratio` times that of the middle one.
        5. Points 3 and 4 are silent where the model normalises its inputs itself (its first layer is a normalisation),
           and once the training has lost half of its first loss: then it copes.
        6. A remark, for points 3 and 4, where the same module takes more other inputs of floats that are well scaled:
           of a batch with many entries not all enter a layer, such as targets in their own units. Else a warning.

        7. Unlike: the deviation of all numbers of a batch in evaluation is more than `threshold_unlike` times that of
           each batch in training (at least two), or each of these is so many times that of the evaluation. Noise that
           drowns the training's inputs is found so, and an evaluation without the training's scaling. Usual
           augmentation changes the deviation by far less.

        Amazon's CheckInputImages requires |mean| < 0.2 of each channel, under MXNet's name of the input; it is the
        preset `aws-docs`. Images between 0 and 1 exceed that, and train well.

    What to do:
        Subtract the mean of the training data and divide by their deviation, feature by feature (images: channel by
        channel). Look at one batch as the model gets it, in training and in evaluation.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.unnormalized_inputs import wrong_with

        random = np.random.default_rng(0).normal(size=(32, 8))
        assert wrong_with(random, size=20, ratio=1000) is None
        assert wrong_with(random * 500, size=20, ratio=1000).measure == "root mean square of the inputs"
        assert wrong_with(np.ones((32, 8)), size=20, ratio=1000).relation == "<"
        ```

    References:
        - LeCun, Bottou, Orr, Mueller: Efficient BackProp (1998), section 4.3: normalising the inputs.
        - Amazon SageMaker Debugger, built-in rule CheckInputImages.
    """

    rule_id = "unnormalized-inputs"
    code = "TS213"
    watches = ("model_inputs",)
    save_interval = 100
    needs = (CollectionRequest("model_inputs", Schedule(50, end_step=101)),)
    severity = Severity.WARNING
    escalates = True
    since = "0.1"
    likely_causes = (Cause.UNNORMALIZED_INPUTS, Cause.CONSTANT_INPUTS)
    shows_its_cause = True  # it reads the batch that the model gets: no other evidence explains what stands there
    what_to_do = (
        "Subtract the training data's mean from the inputs and divide by their deviation, feature by feature.",
        "Look at one batch as the model gets it: each row should be another, and all of it finite.",
        "Let training and evaluation prepare their inputs by the same code, but for mild augmentation.",
    )

    threshold_size: float = parameter(20.0, "root mean square of the inputs above which they are too large", minimum=0)
    threshold_ratio: float = parameter(
        1000.0, "size of the largest feature, as a multiple of the middle one's, above which they are uneven", minimum=1
    )

    threshold_unlike: float = parameter(
        2.5, "ratio of deviations beyond which inputs of training and evaluation are unlike", minimum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per input."""
        copes, several = _copes(window), has_several_aims(window)
        found, varies, well_scaled = [], False, Counter[str]()
        for name in window.tensors("model_inputs"):
            for column in window.statistic(name, "mean", last=1):
                if column.steps[-1] != window.step:
                    continue
                batch = _saved(window, name, worker=column.worker)
                if batch is None or is_mask(batch):
                    continue
                finding = self._judge(window, name, column.worker, batch) or self._unlike(window, name, column.worker)
                varies |= finding is None or finding.measure != CONSTANT
                well_scaled[_module_of(name)] += finding is None and batch.dtype.kind == "f"
                if finding is None or (copes and finding.measure in {SIZE, SPREAD}):
                    continue
                if several and finding.measure == CONSTANT:  # what one model makes for another is no data
                    continue
                if finding.measure == CONSTANT and batch.dtype.kind != "f" and not _came_before(window, finding, batch):
                    continue
                found.append(finding)
        large = Counter(_module_of(finding.subject) for finding in found)
        beside = {module: float(well_scaled[module] > count) for module, count in large.items()}
        return [
            replace(each, statistics={**each.statistics, "is_one_of_many": beside[_module_of(each.subject)]})
            for each in found
            if each.measure != CONSTANT or not varies or self._varied_before(window, each)
        ]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return the reason for trees, which read the order of inputs, and not their size."""
        return "trees read the order of inputs, and not their size" if facts.is_of_trees else ""

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return INFO if each finding is the size of one entry of many, which may enter no layer; else WARNING."""
        doubtful = [f.measure in {SIZE, SPREAD} and f.statistics["is_one_of_many"] > 0 for f in findings]
        return Severity.INFO if all(doubtful) else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return the one cause that the measure of the first finding shows."""
        lead = findings[0]
        if lead.measure == UNLIKE:
            return (Suspicion(Cause.UNNORMALIZED_INPUTS, f"training and evaluation differ: {lead.comparison}"),)
        causes = {BROKEN: Cause.NON_FINITE_DATA, CONSTANT: Cause.CONSTANT_INPUTS}
        return (Suspicion(causes.get(lead.measure, Cause.UNNORMALIZED_INPUTS), lead.comparison),)

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return a sentence with both deviations, for inputs that training and evaluation prepare in two ways."""
        lead = findings[0]
        if lead.measure != UNLIKE:
            return ""
        trained, evaluated = lead.statistics["in_training"], lead.statistics["in_evaluation"]
        return (
            f"Training and evaluation feed the model unlike inputs: the deviation of {lead.subject} is {trained:.3g} "
            f"in training and {evaluated:.3g} in evaluation."
        )

    def _judge(self, window: Window, name: str, worker: str, batch: NDArray[np.generic]) -> Finding | None:
        wrong = wrong_with(batch, size=self.threshold_size, ratio=self.threshold_ratio)
        if wrong is None:
            return None
        return Finding(
            subject=name,
            worker=worker,
            step=window.step,
            since_step=window.step,
            measure=wrong.measure,
            observed=wrong.observed,
            relation=wrong.relation,
            threshold=wrong.threshold,
            statistics={"samples": float(len(batch))},
        )

    def _varied_before(self, window: Window, finding: Finding) -> bool:
        """Return True if a first input is constant now, and was none in an earlier batch.

        A position is the same for each sample at every step, and so is a mask. A state that begins with zeros, and a
        condition that is dropped now and then, come second.
        """
        if not finding.subject.endswith("_input_0"):
            return False
        for column in window.statistic(finding.subject, "mean", last=_FEWEST_BATCHES + 1):
            for step in column.steps[:-1].tolist() if column.worker == finding.worker else ():
                try:
                    batch = window.value(finding.subject, worker=finding.worker, step=step)
                except TensorNotSavedError:
                    continue
                wrong = wrong_with(batch, size=self.threshold_size, ratio=self.threshold_ratio)
                if len(batch) >= _FEWEST_SAMPLES and (wrong is None or wrong.measure != CONSTANT):
                    return True
        return False

    def _unlike(self, window: Window, name: str, worker: str) -> Finding | None:
        """Return a finding if the inputs of training and evaluation differ in scale."""
        trained, evaluated = (_column(window, name, worker, mode=mode) for mode in ("TRAIN", "EVAL"))
        if trained is None or evaluated is None:
            return None
        ratio = unlikeness(trained.values, float(evaluated.values[-1]))
        if not ratio > self.threshold_unlike or not (_is_batch(window, trained) and _is_batch(window, evaluated)):
            return None
        return Finding(
            subject=name,
            worker=worker,
            step=window.step,
            since_step=int(evaluated.steps[-1]),
            measure=UNLIKE,
            observed=ratio,
            relation=">",
            threshold=self.threshold_unlike,
            statistics={"in_training": median(trained.values), "in_evaluation": float(evaluated.values[-1])},
        )


@dataclass(frozen=True)
class Wrong:
    """The fault of a batch, in the fields of a finding."""

    measure: str
    observed: float
    relation: str
    threshold: float


def is_mask(batch: NDArray[np.generic]) -> bool:
    """Return True for what is added to the logits of attention: zeros, and one huge negative number or -infinity.

    Of two dimensions only square ones count: a table of so few numbers is data.
    """
    if batch.dtype.kind != "f" or batch.ndim < 2 or (batch.ndim == 2 and batch.shape[0] != batch.shape[1]):
        return False
    others = batch[batch != 0]
    return bool(0 < others.size < batch.size and others[0] <= _MASKED and (others == others[0]).all())


def unlikeness(trained: NDArray[np.float64], evaluated: float) -> float:
    """Return the factor between the deviation in evaluation and the nearest one in training; 0 if it is within theirs.

    Args:
        trained: The deviation of each batch of training, shape (n,).
        evaluated: The deviation of a batch of evaluation.
    """
    if len(trained) < _FEWEST_BATCHES or not (np.isfinite(trained).all() and trained.min() > 0 < evaluated < math.inf):
        return 0.0
    least, most = float(trained.min()), float(trained.max())
    return evaluated / most if evaluated > most else least / evaluated if evaluated < least else 0.0


def _column(window: Window, name: str, worker: str, *, mode: str) -> Column | None:
    columns = window.statistic(name, "std", mode=mode)
    return next((column for column in columns if column.worker == worker and len(column.steps)), None)


def _came_before(window: Window, finding: Finding, batch: NDArray[np.generic]) -> bool:
    """Return True if each earlier saved batch of tokens was the same: then one text is all that was read.

    A group of generations shares its prompt, and the next group has another one.
    """
    columns = [c for c in window.statistic(finding.subject, "mean", mode=None) if c.worker == finding.worker]
    texts = []
    for step in sorted({step for c in columns for step in c.steps[c.steps < window.step].tolist()}):
        with suppress(TensorNotSavedError):  # reductions only
            texts.append(window.value(finding.subject, worker=finding.worker, step=step))
    return bool(texts) and all(text.ndim > 1 and np.array_equal(text[:1], batch[:1]) for text in texts)


def _is_batch(window: Window, column: Column) -> bool:
    """Return True if the newest batch has several samples of floating-point numbers."""
    try:
        batch = window.value(column.tensor, worker=column.worker, step=int(column.steps[-1]))
    except TensorNotSavedError:
        return False
    is_batch = batch.dtype.kind == "f" and batch.ndim > 1 and len(batch) >= _FEWEST_SAMPLES
    return is_batch and not is_mask(batch)


def _saved(window: Window, name: str, *, worker: str) -> NDArray[np.generic] | None:
    try:
        return window.value(name, worker=worker)
    except TensorNotSavedError:  # reductions only
        return None


def _module_of(name: str) -> str:
    return name.rpartition("_input_")[0]


def wrong_with(batch: NDArray[np.generic], *, size: float, ratio: float) -> Wrong | None:
    """Return the first fault of a batch of inputs, shape (samples, ...); None without one."""
    if batch.dtype.kind not in "fiu" or batch.ndim < 2 or len(batch) < _FEWEST_SAMPLES or not batch.size:
        return None
    samples = batch.reshape(len(batch), -1)[:, : max(1, _MOST_VALUES // len(batch))].astype(np.float64)
    broken = samples.size - int(np.count_nonzero(np.isfinite(samples)))
    if broken:
        return Wrong(BROKEN, float(broken), ">", 0.0)
    scale = math.sqrt(float(np.square(samples).mean()))
    deviation = float(samples.std(axis=0).max())
    if deviation <= _NEARLY_NOTHING * max(scale, 1e-30):
        return Wrong(CONSTANT, deviation, "<", max(_NEARLY_NOTHING * scale, math.ulp(deviation) + deviation, 1e-37))
    return (
        _unscaled(samples, scale, size=size, ratio=ratio, is_table=batch.ndim == 2) if batch.dtype.kind == "f" else None
    )


def _unscaled(samples: NDArray[np.float64], scale: float, *, size: float, ratio: float, is_table: bool) -> Wrong | None:
    """Return the fault of inputs that are too large, or uneven; None if they are well scaled.

    samples  shape (samples, numbers)
    scale    root mean square of all numbers
    """
    if scale > size:
        return Wrong(SIZE, scale, ">", size)
    if is_table and samples.shape[1] > 2:
        sizes = np.sqrt(np.square(samples).mean(axis=0))
        usual = median(sizes[sizes > 0]) if (sizes > 0).any() else 0.0
        if usual > 0 and float(sizes.max()) / usual > ratio:
            return Wrong(SPREAD, float(sizes.max()) / usual, ">", ratio)
    return None


def _copes(window: Window) -> bool:
    learned = learned_share(window)
    return (learned is not None and learned > _LEARNED) or _normalizes_itself(window.facts)


def _normalizes_itself(facts: ModelFacts | None) -> bool:
    """Return True if the first layer that computes anything is a normalisation."""
    if facts is None:
        return False
    working = [
        m for m in facts.modules if m.role in {"linear", "convolution", "recurrent", "attention", "normalization"}
    ]
    return bool(working) and working[0].role == "normalization"
