"""dead-relu: units that answer zero to every input, and so cannot learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import Evidence, certain_causes, has_several_aims, learned_share, still_falls
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_MEASUREMENTS = 4  # of the newest, the smallest counts: a unit that ever answers is not dead
_FEWEST_SAMPLES = 16  # a batch of one switches half of all units off
_CUT = 0.98  # share of dead units from which on a layer lets nothing through
_LEARNED = 0.5  # of the first loss: a model that has learned so much lives with what is left of it
_LEARNS, _FIRST_STEPS = 0.1, 100  # of it in so many steps: a model that has begun to learn may be waited for
_LEARNS_ON = 0.25  # of it later
_AT_ONCE = 0  # step at which a unit that is dead was dead from the start: the first step is still to come
_LIVABLE = 0.9  # share of dead units
_WASTED = 0.05  # of it, and of all gradients by tensors this share is zero: nothing can become of it
_MOSTLY = 0.5
_PASSED_ON = 0.9  # of the dead share of a layer: the least share of zeros in the inputs of the layer behind it
_WITHOUT_ZEROS = ("tanh", "sigmoid", "gelu", "silu", "leaky_relu", "softmax", "log_softmax", "other")


@dataclass(frozen=True)
class DeadRelu(Rule):
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

    What to do:
        Lower the learning rate, initialise with Kaiming's method and biases at zero, or use LeakyReLU or GELU.

    Example:
        ```python
        from trackside.rules.tensors.dead_relu import dying

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
    is_of_networks = True
    watches = ("gradients",)
    save_interval = 500
    needs = ()
    paced = True
    patience = 2
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.DEAD_UNITS, Cause.LEARNING_RATE_TOO_HIGH)
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
        if facts is not None and (_has_no_relu(facts) or _has_small_batches(facts)):
            return []
        if not dying(_zero_shares(window, facts), threshold_layer=self.threshold_layer):
            return []
        columns = {column.tensor: column for column in _biases(window, facts)}
        shares = {name: float(column.values[-_MEASUREMENTS:].min()) for name, column in columns.items()}
        names = [
            name
            for name in dying(shares, threshold_layer=self.threshold_layer)
            if _reaches_weights(window, name, shares[name])
        ]
        names = self._silent_for_the_next(window, facts, shares, names) if names else []
        learned = learned_share(window) if names else None
        zeros = Evidence(window).zero_gradients if names else None
        died = any(self._dead_since(columns[name]) > _AT_ONCE for name in names)
        if learned is not None:
            if _can_be_lived_with(learned, zeros, window.step, dead=shares[names[0]], died=died):
                return []
            gets_through = zeros is not None and zeros < _MOSTLY
            if not died and gets_through and learned > _LEARNS and still_falls(window):
                return []
        statistics = {
            "loss_lost": math.nan if learned is None else learned,
            "zero_gradients": math.nan if zeros is None else zeros,
            "several_aims": float(has_several_aims(window)),
        }
        return [self._finding(window, facts, columns[name], shares[name], statistics) for name in names]

    def lacks(self, window: Window) -> str:
        """Name the missing input: measured gradients of biases."""
        return "" if _zero_shares(window, window.facts) else f"{_MEASUREMENTS} measurements of the gradients of biases"

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a model with known activations that put out no zeros."""
        return "no activation of the model is a ReLU" if _has_no_relu(facts) else ""

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return CRITICAL if no gradient gets through and nothing is learned.

        INFO if much was learned with units that were dead from the first steps on, else WARNING.
        """
        numbers = {"loss_lost": math.nan, "zero_gradients": math.nan, **findings[0].statistics}
        if numbers["loss_lost"] > _LEARNED and all(finding.since_step <= _AT_ONCE for finding in findings):
            return Severity.INFO
        is_wasted = numbers["loss_lost"] < _WASTED and numbers["zero_gradients"] >= _MOSTLY  # NaN is neither
        is_cut = findings[0].observed >= 100 * _CUT and not numbers["several_aims"]
        return Severity.CRITICAL if is_cut and is_wasted else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return certain causes; dead units; and the possible cause of their death."""
        if certain := certain_causes(window):
            return (*certain, Suspicion(Cause.DEAD_UNITS))
        if window.facts is not None and any(held.has_equal_rows for held in window.facts.parameters):
            alike = Suspicion(Cause.SYMMETRIC_INITIALIZATION, "all units of a layer are alike")
            return (alike, Suspicion(Cause.DEAD_UNITS))
        layers = "1 layer" if len(findings) == 1 else f"{len(findings)} layers"
        dead = Suspicion(Cause.DEAD_UNITS, f"{layers}, up to {findings[0].observed:.0f} % of the units")
        if findings[0].since_step <= _AT_ONCE:
            return (dead, Suspicion(Cause.BAD_INITIALIZATION, "dead from the first step on"))
        return (dead, Evidence(window).too_high_a_rate())

    def _silent_for_the_next(
        self, window: Window, facts: ModelFacts | None, shares: Mapping[str, float], names: Sequence[str]
    ) -> list[str]:
        """Return the dying layers with silence that also shows in the gradients of the layers behind them."""
        readers = _zeros_of_readers(window, shares)
        if not readers:  # the run lacks these facts
            return list(names)
        zeros_passed_on = max(zero_inputs(weights=weights, bias=shares[bias]) for bias, weights in readers)
        return [name for name in names if zeros_passed_on >= _PASSED_ON * shares[name] or _is_normalised(facts, name)]

    def _dead_since(self, column: Column) -> int:
        alive = np.flatnonzero(~(column.values > self.threshold_layer / 100))
        return int(column.steps[alive[-1] + 1 if alive.size else 0])

    def _finding(
        self, window: Window, facts: ModelFacts | None, column: Column, share: float, statistics: dict[str, float]
    ) -> Finding:
        module = facts.module_of(column.tensor) if facts else None
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=self._dead_since(column),
            measure="dead units in %",
            observed=100 * share,
            relation=">",
            threshold=self.threshold_layer,
            statistics={name: value for name, value in statistics.items() if math.isfinite(value)},
            series=tuple([(step, 100 * value) for step, value in column.series]),
            place=module.line if module else "",
        )


def dying(shares: Mapping[str, float], *, threshold_layer: float) -> tuple[str, ...]:
    """Return the layers with more than `threshold_layer` percent dead units, the deadest first.

    `shares`: the share of units without a gradient, by layer. () if no layer is alive: then the model has nothing to
    learn at the moment.
    """
    if not shares or min(shares.values()) > threshold_layer / 100:
        return ()
    found = [name for name, share in shares.items() if share > threshold_layer / 100]
    return tuple(sorted(found, key=lambda name: (-shares[name], name)))


def zero_inputs(*, weights: float, bias: float) -> float:
    """Return the share of a layer's inputs that are always zero, from the zeros in its parameters' gradients.

    Units without any gradient count in both shares; a unit with one has it from the inputs that are not zero. 0 if
    nearly all units have none: then the share is unknown.
    """
    return 1 - (1 - weights) / (1 - bias) if bias <= _LIVABLE else 0.0


def _can_be_lived_with(learned: float, zeros: float | None, step: int, *, dead: float, died: bool) -> bool:
    """Return True if a model that lost `learned` of its first loss does without the dead units, or may recover them.

    zeros  share of its gradients (by tensors) that are all zeros, if known
    dead   share of the layer's units that are dead
    died   True if they died in training, not before
    """
    if died:
        return learned > _LEARNED and dead < _LIVABLE
    gets_through = zeros is None or zeros < _MOSTLY
    if step < _FIRST_STEPS:
        return learned > 0 and (gets_through or learned > _LEARNS)
    return (learned > _LEARNED and dead < _CUT) or (learned > _LEARNS_ON and zeros is not None and gets_through)


def _biases(window: Window, facts: ModelFacts | None) -> list[Column]:
    """Return the zero share of the gradients of biases that were measured often enough."""
    return [
        column
        for name in _names_of_biases(window, facts)
        for column in window.statistic(name, "zero_share", mode=None)
        if len(column.values) >= _MEASUREMENTS
    ]


def _zero_shares(window: Window, facts: ModelFacts | None) -> Mapping[str, float]:
    """Return the smallest of the newest shares of each column of `_biases`, by tensor. The last worker counts."""
    names = _names_of_biases(window, facts)
    found: dict[str, tuple[str, float]] = {}
    for panel in window.newest(names, "zero_share", last=_MEASUREMENTS, mode=None):
        if panel.count < _MEASUREMENTS:
            continue
        for tensor, worker, share in zip(panel.tensors, panel.workers, panel.newest.min(axis=1).tolist(), strict=True):
            if tensor not in found or worker > found[tensor][0]:
                found[tensor] = worker, share
    return {name: found[name][1] for name in names if name in found}


def _names_of_biases(window: Window, facts: ModelFacts | None) -> tuple[str, ...]:
    names = [
        name for name in window.tensors("gradients") if name.endswith(("bias", "bias:0"))
    ]  # of Keras: `dense/bias:0`
    return tuple([name for name in names if not _is_of_embedding(facts, name)])


def _reaches_weights(window: Window, bias: str, share: float) -> bool:
    """Return True if the layer's weights have as few gradients as its bias, or unknown ones."""
    columns = window.statistic(f"{bias.removesuffix('bias')}weight", "zero_share", mode=None)
    return all(float(column.values[-_MEASUREMENTS:].min()) >= 0.9 * share for column in columns)


def _zeros_of_readers(window: Window, shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return (bias, share of zeros in the weights' gradient) of each layer but the first.

    A layer without a bias takes the next one: that of the normalisation behind it. Rows of an embedding that no
    sample used do not count as zeros.
    """
    facts = window.facts
    names = [held.gradient for held in facts.parameters] if facts else list(window.tensors("gradients"))
    names = [n for n in names if n in shares or (n.endswith("weight") and not _is_of_embedding(facts, n))]
    weights = [(place, name) for place, name in enumerate(names) if name not in shares]
    found = []
    for place, weight in weights[1:]:
        own = f"{weight.removesuffix('weight')}bias"
        bias = own if own in shares else next((name for name in names[place:] if name in shares), None)
        if bias is not None:
            columns = window.statistic(weight, "zero_share", mode=None)
            found += [(bias, float(column.values[-_MEASUREMENTS:].min())) for column in columns]
    return found


def _is_normalised(facts: ModelFacts | None, bias: str) -> bool:
    """Return True if a ReLU and then a normalisation follow the layer, as modules were built."""
    own = facts.module_of(bias) if facts else None
    if facts is None or own is None:
        return False
    place = facts.modules.index(own)
    return [module.role for module in facts.modules[place + 1 : place + 3]] == ["activation", "normalization"]


def _is_of_embedding(facts: ModelFacts | None, name: str) -> bool:
    module = facts.module_of(name) if facts else None
    return module is not None and module.role in {"embedding", "attention"}


def _has_no_relu(facts: ModelFacts) -> bool:
    """Return True if all activations are known, and none of them puts out zeros."""
    kinds = {module.activation for module in facts.modules if module.activation}
    return bool(kinds) and kinds.issubset(_WITHOUT_ZEROS)


def _has_small_batches(facts: ModelFacts) -> bool:
    sizes = [int(np.prod(loss.input_shape[:-1])) for loss in facts.losses if len(loss.input_shape) > 1]
    return bool(sizes) and max(sizes) < _FEWEST_SAMPLES
