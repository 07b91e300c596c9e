"""unnormalized-inputs: inputs of the model: too large, constant, no numbers, or unlike those of evaluation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run.recorded_names import HELD_OUT_SCORE, RAN_OUT
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import ENOUGH_SAMPLES, HALF_LEARNED, SEVERAL
from trackside.situation.inputs import (
    BROKEN,
    CONSTANT,
    SIZE,
    SPREAD,
    TINY,
    UNLIKE,
    came_before,
    is_mask,
    normalizes_itself,
    unlikeness,
    wrong_with,
)
from trackside.situation.losses.losses import learned_share
from trackside.situation.medians import median
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class Beside(Details):
    """Details of a finding.

    is_one_of_many  True if most inputs of the module are well scaled
    in_training, in_evaluation   deviations of the input in both, where they differ
    """

    is_one_of_many: bool = False
    in_training: float | None = None
    in_evaluation: float | None = None


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
        3. Too large: the root mean square is above `threshold_size`. Too small: without zeros it is below `least_size`.
        4. Uneven, for inputs of shape (samples, features): the root mean square of the largest feature is more than
           `threshold_ratio` times that of the middle one.
        5. Points 3 and 4 are silent where the model normalises its inputs itself (its first layer is a normalisation),
           and once the training has lost half of its first loss: then it copes.
           Of an estimator of scikit-learn without losses, point 3 needs a sign of harm: its limit of steps ended it,
           or held-out rows have no better a score than a guess. Trees and closed solutions are left out.
        6. A remark, for points 3 and 4, where the same module takes more other inputs of floats that are well scaled:
           of a batch with many entries not all enter a layer, such as targets in their own units. Else a warning.

        7. Unlike: the deviation of all numbers of a batch in evaluation is more than `threshold_unlike` times that of
           each batch in training (at least two), or each of these is so many times that of the evaluation. Noise that
           drowns the training's inputs is found so, and an evaluation without the training's scaling. Usual
           augmentation changes the deviation by far less.

        Amazon's CheckInputImages requires |mean| < 0.2 of each channel, under MXNet's name of the input; it is the
        preset `aws-docs`. Images between 0 and 1 exceed that, and train well.

    Example:
        ```python
        import numpy as np
        from trackside.situation.inputs import wrong_with

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
    escalates = True
    since = "0.1"
    likely_causes = (Cause.UNNORMALIZED_INPUTS, Cause.CONSTANT_INPUTS)
    suspects = (
        Suspect(Cause.UNNORMALIZED_INPUTS, "training and evaluation differ: {comparison}", (UNLIKE,)),
        Suspect(Cause.NON_FINITE_DATA, "{comparison}", (BROKEN,)),
        Suspect(Cause.CONSTANT_INPUTS, "{comparison}", (CONSTANT,)),
        Suspect(Cause.UNNORMALIZED_INPUTS, "{comparison}", (SIZE, TINY, SPREAD)),
    )
    shows_its_cause = True  # it reads the batch that the model gets: no other evidence explains what stands there
    what_to_do = (
        "Subtract the training data's mean from the inputs and divide by their deviation, feature by feature.",
        "Look at one batch as the model gets it: each row should be another, and all of it finite.",
        "Let training and evaluation prepare their inputs by the same code, but for mild augmentation.",
    )

    threshold_size: float = parameter(20.0, "root mean square of the inputs above which they are too large", minimum=0)
    least_size: float = parameter(0.005, "root mean square of an input of numbers below which it is tiny", minimum=0)
    threshold_ratio: float = parameter(
        1000.0, "size of the largest feature, as a multiple of the middle one's, above which they are uneven", minimum=1
    )

    threshold_unlike: float = parameter(
        2.5, "ratio of deviations beyond which inputs of training and evaluation are unlike", minimum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per input."""
        excused = _excused(window)
        several = has_several_aims(window)
        found, varies, well_scaled = [], False, Counter[str]()
        for name in window.tensors("model_inputs"):
            for column in window.statistic(name, "mean", last=1):
                if column.steps[-1] != window.step:
                    continue
                batch = _saved(window, name, worker=column.worker)
                if batch is None or is_mask(batch):
                    continue
                size = math.inf if SIZE in excused and SPREAD not in excused else self.threshold_size
                finding = self._judge(window, name, column.worker, batch, size=size)
                if finding is None or finding.measure == TINY:
                    finding = self._unlike(window, name, column.worker) or finding
                varies |= finding is None or finding.measure != CONSTANT
                well_scaled[_module_of(name)] += finding is None and batch.dtype.kind == "f"
                if finding is None or finding.measure in excused:
                    continue
                if several and finding.measure == CONSTANT:  # what one model makes for another is no data
                    continue
                if (
                    finding.measure == CONSTANT
                    and batch.dtype.kind != "f"
                    and not came_before(window, name, batch, worker=column.worker)
                ):
                    continue
                found.append(finding)
        large = Counter(_module_of(finding.subject) for finding in found)
        return [
            _graded(each, is_one_of_many=well_scaled[_module_of(each.subject)] > large[_module_of(each.subject)])
            for each in found
            if each.measure != CONSTANT or not varies or self._varied_before(window, each)
        ]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return the reason for trees, which read the order of inputs, and not their size."""
        if facts.is_of_fits and not facts.modules:
            return "such an estimator takes inputs of any size: trees read their order, and others solve in one step"
        return "trees read the order of inputs, and not their size" if facts.is_of_trees else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return a sentence with both deviations, for inputs that training and evaluation prepare in two ways."""
        lead = findings[0]
        if lead.measure != UNLIKE:
            return ""
        seen = Beside.of(lead)
        return (
            f"Training and evaluation feed the model unlike inputs: the deviation of {lead.subject} is "
            f"{seen.in_training:.3g} in training and {seen.in_evaluation:.3g} in evaluation."
        )

    def _judge(
        self, window: Window, name: str, worker: str, batch: NDArray[np.generic], *, size: float
    ) -> Finding | None:
        wrong = wrong_with(batch, size=size, ratio=self.threshold_ratio, least=self.least_size)
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
        for column in window.statistic(finding.subject, "mean", last=SEVERAL + 1):
            for step in column.steps[:-1].tolist() if column.worker == finding.worker else ():
                try:
                    batch = window.value(finding.subject, worker=finding.worker, step=step)
                except TensorNotSavedError:
                    continue
                wrong = wrong_with(batch, size=self.threshold_size, ratio=self.threshold_ratio)
                if len(batch) >= ENOUGH_SAMPLES and (wrong is None or wrong.measure != CONSTANT):
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
        return finding_of(
            window,
            name,
            UNLIKE,
            ratio,
            above=self.threshold_unlike,
            since=int(evaluated.steps[-1]),
            worker=worker,
            statistics={"in_training": median(trained.values), "in_evaluation": float(evaluated.values[-1])},
        )


def _graded(finding: Finding, *, is_one_of_many: bool) -> Finding:
    """Return a finding with its grade: a remark for the size of one entry of many, which may enter no layer."""
    is_doubtful = is_one_of_many and finding.measure in {SIZE, TINY, SPREAD}
    grade = Severity.INFO if is_doubtful else Severity.WARNING
    return replace(Beside(is_one_of_many).beside(finding), grade=grade)


def _column(window: Window, name: str, worker: str, *, mode: str) -> Column | None:
    columns = window.statistic(name, "std", mode=mode)
    return next((column for column in columns if column.worker == worker and len(column.steps)), None)


def _is_batch(window: Window, column: Column) -> bool:
    """Return True if the newest batch has several samples of floating-point numbers."""
    try:
        batch = window.value(column.tensor, worker=column.worker, step=int(column.steps[-1]))
    except TensorNotSavedError:
        return False
    is_batch = batch.dtype.kind == "f" and batch.ndim > 1 and len(batch) >= ENOUGH_SAMPLES
    return is_batch and not is_mask(batch)


def _saved(window: Window, name: str, *, worker: str) -> NDArray[np.generic] | None:
    try:
        return window.value(name, worker=worker)
    except TensorNotSavedError:  # reductions only
        return None


def _module_of(name: str) -> str:
    return name.rpartition("_input_")[0]


def _excused(window: Window) -> frozenset[str]:
    """Return the measures that are no fault in this training.

    An estimator without losses tells by its end, and by its score of held-out rows, that large inputs harm it.
    """
    if _copes(window):
        return frozenset({SIZE, TINY, SPREAD})
    is_unharmed = not any(window.statistic(name, "mean", mode=None) for name in (RAN_OUT, HELD_OUT_SCORE))
    return frozenset({SIZE} if window.facts is not None and window.facts.is_of_fits and is_unharmed else ())


def _copes(window: Window) -> bool:
    """Return True if the training does not need inputs of usual size."""
    learned = learned_share(window)
    return (learned is not None and learned > HALF_LEARNED) or normalizes_itself(window.facts)
