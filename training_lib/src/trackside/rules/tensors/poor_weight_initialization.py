"""poor-weight-initialization: the weights start too large, too small, or all alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.contracts.observations import HAS_EQUAL_ROWS, STEP_SHARE
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import FIRST, MOST, SHORT_STRETCH
from trackside.situation.losses.losses import chance_level, training_losses
from trackside.situation.medians import median
from trackside.trial.window import Column, Window

SCALE, LOSS, ZERO, ALIKE, STEP = (
    "initial scale",
    "first loss over chance",
    "norm of the weights",
    "units that differ",
    "units at both flat ends of tanh or sigmoid, in %",
)


def _alike(known: Known) -> Answer:
    kinds = {finding.measure for finding in known.findings}
    return "weights start at zero" if ZERO in kinds else "all units of a layer are alike" if ALIKE in kinds else False


def _wrong_scale(known: Known) -> Answer:
    lead = known.lead
    return any(f.measure == SCALE for f in known.findings) and f"{lead.comparison} in {lead.subject}"


def _at_an_end(known: Known) -> Answer:
    is_so = any(finding.measure == STEP for finding in known.findings)
    return is_so and f"{known.lead.observed:.0f} % of the units of a layer are at either end from the first step on"


@dataclass(frozen=True)
class PoorWeightInitialization(NetworkRule):
    """The weights start too large, too small, or all alike.

    Why it matters:
        Weights that start ten times too large double that error in each layer: units saturate, the first loss is huge,
        and many steps go by repairing it. Weights that start alike stay alike, however long the training runs.

    How it decides:
        On the first step at which the weights were measured:

        1. The scale of a weight matrix is s = sigma x sqrt(fan_in), with sigma its root mean square and fan_in the
           number of inputs of a unit. Usual initialisations lie between 0.3 and 1.5. A layer is off where
           s > `large_scale` or s < `small_scale`; embeddings and last layers (whose scale is often chosen small) do not
           count. It fires where half of the layers are off, and at least two (or the only one).
        2. First loss: cross entropy over n classes is ln(n) for a model that knows nothing. It fires where the first
           loss is more than `loss_ratio` times that, and the newest are (their median) when it is judged, ten steps
           later: embeddings that are the last layer too, and what was trained for other data, repair that at once.
        3. Zero: where matrices are all zeros, and more than half of the layers still get no gradient at the fourth
           step. A single layer that starts at zero on purpose lets the others' gradients through after one step. Also
           where every matrix is zero, two at least, and one of them gets no gradient at the first step: random biases
           let gradients through later, and the layers learn next to nothing for long.
        4. Alike: the rows of a hidden layer are all the same before the first step or after it, and not zero.
        5. Steps: more than `step_units` percent of the units of a tanh or sigmoid are at one flat end for some samples
           and at the other for others, at the first step, and hardly in between: at least 80 % of the samples put out
           more than 0.99 of the way to an end, a tenth of them at each. Such a unit is a step, through which nothing is
           learned. A unit at one end for all samples may be a gate that begins closed. Functions (`torch.tanh`) count
           as modules do.

        Layers loaded from a checkpoint have the scale that they were trained to; most lie within the bounds.

        Amazon's PoorWeightInitialization requires the variances of activation inputs, the spread of gradients, and a
        loss that falls within the first ten steps; by default nothing of that is saved so early. Preset `aws-docs`.

    Example:
        ```python
        from trackside.rules.tensors.poor_weight_initialization import scale_of

        assert abs(scale_of(norm=8.0, size=64 * 64, fan_in=64) - 1.0) < 1e-9  # sigma = 1/8 = 1/sqrt(64)
        assert scale_of(norm=640.0, size=64 * 64, fan_in=64) > 50
        ```

    References:
        - Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks (2010).
        - He, Zhang, Ren, Sun: Delving deep into rectifiers (2015).
        - Amazon SageMaker Debugger, built-in rule PoorWeightInitialization.
    """

    rule_id = "poor-weight-initialization"
    code = "TS110"
    watches = ("weights", "losses")
    since = "0.1"
    likely_causes = (Cause.BAD_INITIALIZATION, Cause.SYMMETRIC_INITIALIZATION)
    suspects = (
        FirstOf(
            (Suspect(Cause.SYMMETRIC_INITIALIZATION, _alike),),
            (Suspect(Cause.BAD_INITIALIZATION, _wrong_scale), Suspect(Cause.EXPLODING_GRADIENTS)),
            (Suspect(Cause.SATURATED_UNITS, _at_an_end),),
            (Suspect(Cause.UNNORMALIZED_INPUTS, "{comparison}"),),
        ),
        Suspect(Cause.BAD_INITIALIZATION),
    )
    what_to_do = (
        "Leave the layers' own initialisation, or use Kaiming's for ReLU and Xavier's for tanh.",
        "Start biases at zero, weights never: units that start alike stay alike.",
        "If only the first loss is large, look at the scale of the inputs.",
    )

    large_scale: float = parameter(5.0, "scale above which a layer starts too large", minimum=0)
    small_scale: float = parameter(0.03, "scale below which a layer starts too small", minimum=0)
    step_units: float = parameter(50.0, "share of a layer's units in percent that are steps", minimum=0, maximum=100)
    loss_ratio: float = parameter(4.0, "first loss over that of guessing, above which outputs are too large", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return findings for layers that start at zero or alike, layers with a wrong scale, and the first loss."""
        facts = window.facts
        if facts is None or window.step < FIRST:
            return []
        zeros = self._zeros(window, facts) or self._alike(window, facts)
        return [*zeros, *self._off(window, facts), *self._steps(window, facts), *self._first_losses(window, facts)]

    def lacks(self, window: Window) -> str:
        """Return a clause without facts about the program, or during its first steps."""
        if window.facts is None:
            return "facts about the program's parameters, which Trackside's hook records"
        return "" if window.step >= FIRST else "its first steps"

    def observes(self, findings: Sequence[Finding]) -> bool:
        """Return True if the layers themselves are seen to begin badly; a high first loss is a guess about them."""
        return findings[0].measure in {SCALE, ZERO, ALIKE, STEP}

    def _off(self, window: Window, facts: ModelFacts) -> list[Finding]:
        layers = _hidden_layers(facts)
        first = _first_norms(window, layers)
        off = [held for held in layers if any(self._is_off(norm, held) for norm in first.get(held.name, ()))]
        found = []
        for held in off:
            for column in window.statistic(held.name, "l2", mode=None):
                scale = scale_of(norm=float(column.values[0]), size=held.size, fan_in=held.fan_in)
                if self._is_off(float(column.values[0]), held):
                    found.append(self._finding(window, facts, held, column, scale))
        is_common = 2 * len(found) >= len(layers) and len(found) >= min(2, len(layers))
        return sorted(found, key=lambda finding: -abs(math.log(finding.observed))) if is_common else []

    def _is_off(self, norm: float, held: ParameterFacts) -> bool:
        scale = scale_of(norm=norm, size=held.size, fan_in=held.fan_in)
        return scale > self.large_scale or 0 < scale < self.small_scale

    def _finding(
        self, window: Window, facts: ModelFacts, held: ParameterFacts, column: Column, scale: float
    ) -> Finding:
        module = facts.module(held.module)
        is_large = scale > self.large_scale
        return Finding(
            subject=held.name,
            worker=column.worker,
            step=window.step,
            since_step=int(column.steps[0]),
            measure=SCALE,
            observed=scale,
            relation=">" if is_large else "<",
            threshold=self.large_scale if is_large else self.small_scale,
            place=module.line if module else "",
        )

    def _zeros(self, window: Window, facts: ModelFacts) -> list[Finding]:
        layers = [held for held in facts.parameters if len(held.shape) > 1 and held.requires_grad and held.optimizer]
        first = _first_norms(window, layers)
        zeros = [held for held in layers if 0 in first.get(held.name, ())]
        if not zeros:
            return []
        silent = [held for held in layers if _gets_nothing(window, held)]
        is_all = len(zeros) == len(layers) > 1 and any(_got_nothing_at_first(window, held) for held in layers)
        if not is_all and not len(silent) > MOST * len(layers):
            return []
        places = {held.name: facts.module(held.module) for held in zeros}
        return [
            finding_of(
                window,
                held.name,
                ZERO,
                0.0,
                below=math.ulp(0.0),
                since=0,
                place=module.line if (module := places[held.name]) else "",
            )
            for held in zeros
        ]

    def _alike(self, window: Window, facts: ModelFacts) -> list[Finding]:
        layers = _hidden_layers(facts)
        alike = [held for held in layers if HAS_EQUAL_ROWS.of(held) and _began_above_zero(window, held)]
        return [
            finding_of(
                window,
                held.name,
                ALIKE,
                0.0,
                below=1.0,
                since=0,
                place=module.line if (module := facts.module(held.module)) else "",
            )
            for held in alike
        ]

    def _steps(self, window: Window, facts: ModelFacts) -> list[Finding]:
        return [
            finding_of(window, loss.name, STEP, 100 * STEP_SHARE.of(loss), above=self.step_units, since=0)
            for loss in facts.losses
            if 100 * STEP_SHARE.of(loss) > self.step_units
        ]

    def _first_losses(self, window: Window, facts: ModelFacts) -> list[Finding]:
        found = []
        for column in training_losses(window):
            chance = chance_level(facts.loss(column.tensor))
            first = float(column.values[0])
            if chance is None or not math.isfinite(first) or not first > self.loss_ratio * chance:
                continue
            if not median(column.values[-SHORT_STRETCH:]) > self.loss_ratio * chance:  # repaired in a few steps
                continue
            found.append(
                finding_of(
                    window, column, LOSS, first / chance, above=self.loss_ratio, since=int(column.steps[0]), series=()
                )
            )
        return found


def scale_of(*, norm: float, size: int, fan_in: int) -> float:
    """Return sigma x sqrt(fan_in) of a weight of that L2 norm and number of elements."""
    return norm / math.sqrt(size) * math.sqrt(fan_in) if size else 0.0


def _hidden_layers(facts: ModelFacts) -> list[ParameterFacts]:
    """Return the weight matrices of the layers that compute, without the last."""
    roles = {"linear", "convolution", "recurrent", "attention"}
    layers = [
        held
        for held in facts.parameters
        if len(held.shape) > 1
        and held.requires_grad
        and not held.tied_to
        and (module := facts.module(held.module)) is not None
        and module.role in roles
    ]
    return layers[:-1] if len(layers) > 1 else layers


def _first_norms(window: Window, layers: Sequence[ParameterFacts]) -> Mapping[str, list[float]]:
    """Return the first norm of each measured weight, of each worker."""
    found: dict[str, list[float]] = {}
    for panel in window.newest(tuple([held.name for held in layers]), "l2", last=1, mode=None):
        for name, norm in zip(panel.tensors, panel.oldest[:, 0].tolist(), strict=True):
            found.setdefault(name, []).append(norm)
    return found


def _began_above_zero(window: Window, held: ParameterFacts) -> bool:
    """Return True for a constant that is not zero: a matrix of zeros may be meant to begin so."""
    return any(column.values[0] > 0 for column in window.statistic(held.name, "l2", mode=None))


def _gets_nothing(window: Window, held: ParameterFacts) -> bool:
    columns = window.statistic(held.gradient, "l2", mode=None)
    early = [column.values[column.steps >= FIRST] for column in columns]
    return any(len(values) > 0 and not values[:3].any() for values in early)


def _got_nothing_at_first(window: Window, held: ParameterFacts) -> bool:
    columns = window.statistic(held.gradient, "l2", mode=None)
    return any(len(column.values) > 0 and column.steps[0] == 0 and column.values[0] == 0 for column in columns)
