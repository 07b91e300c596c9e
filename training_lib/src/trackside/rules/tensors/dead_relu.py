"""dead-relu: units that answer zero to every input, and so cannot learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observations import HAS_EQUAL_ROWS
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import CERTAIN, TOO_HIGH_A_RATE
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import A_HANDFUL, CUT_OFF, HALF_LEARNED, LEARNS, MOST, NEARLY_ALL, TRACE
from trackside.situation.dead_units import (
    biases_of,
    can_be_lived_with,
    dying,
    has_no_relu,
    has_small_batches,
    is_normalised,
    reaches_weights,
    zero_inputs,
    zero_shares,
    zeros_of_readers,
)
from trackside.situation.losses.losses import learned_share, still_falls
from trackside.situation.measurements import Evidence
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class DeadUnits(Details):
    """Details of a finding. A number that is not finite is left out of verdicts.

    loss_lost       share of the first loss that is gone
    zero_gradients  share of the gradients, by tensors, that are zero
    several_aims    True for models that compete, or are trained in turns
    """

    loss_lost: float = math.nan
    zero_gradients: float = math.nan
    several_aims: bool = False


def _alike(known: Known) -> Answer:
    facts = known.window.facts
    is_so = facts is not None and any(HAS_EQUAL_ROWS.of(held) for held in facts.parameters)
    return is_so and "all units of a layer are alike"


def _dead_layers(known: Known) -> Answer:
    layers = "1 layer" if len(known.findings) == 1 else f"{len(known.findings)} layers"
    return f"{layers}, up to {known.lead.observed:.0f} % of the units"


def _dead_from_the_start(known: Known) -> Answer:
    return known.lead.since_step <= 0 and "dead from the first step on"


@dataclass(frozen=True)
class DeadRelu(NetworkRule):
    """Many units of a layer answer zero to every input.

    Why it matters:
        Behind a ReLU a unit whose input is negative for every sample puts out zero, gets no gradient, and stays so for
        ever. One step too large can switch off half of a layer: the model goes on with what is left of it.

    How it decides:
        A unit that no sample of a batch switches on gets the gradient 0, exactly, in its bias. So this is seen without
        saving any activation, for `nn.ReLU` as for `torch.relu`.

        1. For each layer with a bias (linear, convolution, batch normalisation), d is the smallest share of zeros in
           the gradient of the bias over its newest four measurements.
        2. The layer is dying where d > `threshold_layer` percent. Layers without gradient, embeddings, and models whose
           activations put out no zeros (tanh, GELU, ...) are left out.
        3. What reaches a dead unit has no gradient either: the share of zeros in the gradient of the layer's weights is
           at least 0.9 d. A bias that cancels out of the loss (ranking by differences) is no dead unit.
        4. What a dead unit passes on is zero, so that the weights that read it get no gradient either. It fires only
           where another layer, not the first, shows that: a share c = 1 - (1 - z) / (1 - b) of its inputs is zero, with
           z and b the shares of zeros in the gradients of its weights and its bias, and c is at least 0.9 d. A head
           without a sample, an expert that was not chosen and actions that were not taken have gradients of zeros,
           but no layer reads zeros for it. (A normalisation right behind the ReLU hides it, and is taken at its word.)
        5. It fires only where some layer is alive: where the loss itself is zero for every sample (a margin that is
           kept), all gradients are zero and nothing is dead.
        6. Batches of fewer than 16 samples are too small for it, and are left out.
        7. A model that learns lives with what is left of it, for a wide layer needs but a few units. Where units are
           dead from the first step on, it is silent in the first 100 steps while the loss falls, and later once that
           has lost a quarter of its first value, or a tenth and goes on falling, unless half of the gradients of the
           model (by tensors) are nothing but zeros. Where 98 % of a layer are dead although half of the loss is gone
           (there is a way around it), it is information. Where units have died in training, it is silent up to
           90 % of a layer once half of the loss is gone.

        Critical where the training is wasted: 98 % of a layer are dead, half of the gradients of the model (by tensors)
        are nothing but zeros, and the loss has lost less than a twentieth. Else a warning. Amazon's DeadRelu counts
        zeros in the outputs of layers whose names end in `relu_output`; that is the preset `aws-docs`.

    Example:
        ```python
        from trackside.situation.dead_units import dying

        shares = {"gradient/Net_hidden.bias": 0.8, "gradient/Net_head.bias": 0.0}
        assert dying(shares, threshold_layer=50) == ("gradient/Net_hidden.bias",)
        assert dying({name: 1.0 for name in shares}, threshold_layer=50) == ()
        ```

    References:
        - Lu, Shin, Su, Karniadakis: Dying ReLU and initialization (2019).
        - Zhang et al.: AutoTrainer (ICSE 2021): zero gradients in 70 % of a layer as the symptom.
        - Amazon SageMaker Debugger, built-in rule DeadRelu: `threshold_layer`.
    """

    rule_id = "dead-relu"
    code = "TS102"
    watches = ("gradients",)
    patience = 2
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.DEAD_UNITS, Cause.LEARNING_RATE_TOO_HIGH)
    suspects = (
        FirstOf(
            CERTAIN,
            (Suspect(Cause.SYMMETRIC_INITIALIZATION, _alike),),
            (
                Suspect(Cause.DEAD_UNITS, _dead_layers),
                FirstOf((Suspect(Cause.BAD_INITIALIZATION, _dead_from_the_start),), TOO_HIGH_A_RATE),
            ),
        ),
        Suspect(Cause.DEAD_UNITS),
    )
    what_to_do = (
        "Lower the learning rate, or warm it up over the first steps.",
        "Initialise weights with Kaiming's method, and biases at zero.",
        "Use LeakyReLU or GELU in the layers named above.",
    )

    threshold_layer: float = parameter(
        70.0, "share of a layer's units in percent that are dead", minimum=0, maximum=100
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per dying layer, the deadest first."""
        facts = window.facts
        if facts is not None and (has_no_relu(facts) or has_small_batches(facts)):
            return []
        if not dying(zero_shares(window, facts), threshold_layer=self.threshold_layer):
            return []
        columns = {column.tensor: column for column in biases_of(window, facts)}
        shares = {name: float(column.values[-A_HANDFUL:].min()) for name, column in columns.items()}
        names = [
            name
            for name in dying(shares, threshold_layer=self.threshold_layer)
            if reaches_weights(window, name, shares[name])
        ]
        names = self._silent_for_the_next(window, facts, shares, names) if names else []
        learned = learned_share(window) if names else None
        zeros = Evidence(window).zero_gradients if names else None
        died = any(self._dead_since(columns[name]) > 0 for name in names)
        if learned is not None:
            if can_be_lived_with(learned, zeros, window.step, dead=shares[names[0]], died=died):
                return []
            gets_through = zeros is not None and zeros < MOST
            if not died and gets_through and learned > LEARNS and still_falls(window):
                return []
        details = DeadUnits(
            loss_lost=math.nan if learned is None else learned,
            zero_gradients=math.nan if zeros is None else zeros,
            several_aims=has_several_aims(window),
        )
        return [self._finding(window, facts, columns[name], shares[name], details) for name in names]

    def lacks(self, window: Window) -> str:
        """Name the missing input: measured gradients of biases."""
        return "" if zero_shares(window, window.facts) else f"{A_HANDFUL} measurements of the gradients of biases"

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a model with known activations that put out no zeros."""
        return "no activation of the model is a ReLU" if has_no_relu(facts) else ""

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return CRITICAL if no gradient gets through and nothing is learned.

        INFO if much was learned with units that were dead from the first steps on, else WARNING.
        """
        seen = DeadUnits.of(findings[0])
        if seen.loss_lost > HALF_LEARNED and all(finding.since_step <= 0 for finding in findings):
            return Severity.INFO
        is_wasted = seen.loss_lost < TRACE and seen.zero_gradients >= MOST  # NaN is neither
        is_cut = findings[0].observed >= 100 * CUT_OFF and not seen.several_aims
        return Severity.CRITICAL if is_cut and is_wasted else Severity.WARNING

    def _silent_for_the_next(
        self, window: Window, facts: ModelFacts | None, shares: Mapping[str, float], names: Sequence[str]
    ) -> list[str]:
        """Return the dying layers with silence that also shows in the gradients of the layers behind them."""
        readers = zeros_of_readers(window, shares)
        if not readers:  # the run lacks these facts
            return list(names)
        zeros_passed_on = max(zero_inputs(weights=weights, bias=shares[bias]) for bias, weights in readers)
        return [name for name in names if zeros_passed_on >= NEARLY_ALL * shares[name] or is_normalised(facts, name)]

    def _dead_since(self, column: Column) -> int:
        alive = np.flatnonzero(~(column.values > self.threshold_layer / 100))
        return int(column.steps[alive[-1] + 1 if alive.size else 0])

    def _finding(
        self, window: Window, facts: ModelFacts | None, column: Column, share: float, details: DeadUnits
    ) -> Finding:
        module = facts.module_of(column.tensor) if facts else None
        return finding_of(
            window,
            column,
            "dead units in %",
            100 * share,
            above=self.threshold_layer,
            since=self._dead_since(column),
            series=tuple([(step, 100 * value) for step, value in column.series]),
            statistics={name: value for name, value in details.numbers().items() if math.isfinite(value)},
            place=module.line if module else "",
        )
