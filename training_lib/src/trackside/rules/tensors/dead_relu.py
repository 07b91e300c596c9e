"""dead-relu: units that answer zero to every input, and so cannot learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.verdict import Finding, Severity
from trackside.records.model_facts import ModelFacts
from trackside.rules.diagnosis import Evidence, certain_causes, learned_share
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_MEASUREMENTS = 4  # of the newest, the smallest counts: a unit that ever answers is not dead
_FEWEST_SAMPLES = 16  # a batch of one switches half of all units off
_CUT = 0.98  # share of dead units from which on a layer lets nothing through
_LEARNED, _LIVABLE = 0.5, 0.9
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
        4. It fires only where some layer is alive: where the loss itself is zero for every sample (a margin that is
           kept), all gradients are zero and nothing is dead.
        5. Batches of fewer than 16 samples cannot tell, and are left out.
        6. A model that has lost half of its first loss lives with what is left of it, up to 90 % dead units in a layer.

        Critical where 98 % of a layer are dead: nothing gets through. Else a warning. Amazon's DeadRelu counts zeros
        in the outputs of layers whose names end in `relu_output`; that is the preset `aws-docs`.

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
        """One finding per dying layer, the deadest first."""
        facts = window.facts
        if facts is not None and (_has_no_relu(facts) or _has_small_batches(facts)):
            return []
        columns = {column.tensor: column for column in _biases(window, facts)}
        shares = {name: float(column.values[-_MEASUREMENTS:].min()) for name, column in columns.items()}
        names = [
            n for n in dying(shares, threshold_layer=self.threshold_layer) if _reaches_weights(window, n, shares[n])
        ]
        learned = learned_share(window)
        if learned is not None and learned > _LEARNED and max([shares[n] for n in names], default=0.0) < _LIVABLE:
            return []
        return [self._finding(window, facts, columns[name], shares[name]) for name in names]

    def lacks(self, window: Window) -> str:
        """Measured gradients of biases."""
        return "" if _biases(window, window.facts) else f"{_MEASUREMENTS} measurements of the gradients of biases"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Critical where nothing gets through a layer any more."""
        return Severity.CRITICAL if findings[0].observed >= 100 * _CUT else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """What is certain; dead units; and what may have killed them."""
        if certain := certain_causes(window):
            return (*certain, Suspicion(Cause.DEAD_UNITS))
        dead = Suspicion(Cause.DEAD_UNITS, f"{len(findings)} layers, up to {findings[0].observed:.0f} % of the units")
        ratio = Evidence(window).update_ratio
        killed_at_once = findings[0].since_step <= 1
        if killed_at_once:
            return (dead, Suspicion(Cause.BAD_INITIALIZATION, "dead from the first step on"))
        because = f"a step changes weights by {ratio:.1%}" if ratio is not None else ""
        return (dead, Suspicion(Cause.LEARNING_RATE_TOO_HIGH, because))

    def _finding(self, window: Window, facts: ModelFacts | None, column: Column, share: float) -> Finding:
        alive = np.flatnonzero(~(column.values > self.threshold_layer / 100))
        module = facts.module_of(column.tensor) if facts else None
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=int(column.steps[alive[-1] + 1 if alive.size else 0]),
            measure="dead units in %",
            observed=100 * share,
            relation=">",
            threshold=self.threshold_layer,
            series=tuple([(step, 100 * value) for step, value in column.series]),
            place=module.line if module else "",
        )


def dying(shares: Mapping[str, float], *, threshold_layer: float) -> tuple[str, ...]:
    """Names of the layers of whose units more than `threshold_layer` percent are dead, the deadest first.

    `shares`: by layer, the share of units without a gradient. () where no layer is alive: then there is nothing to
    learn at the moment.
    """
    if not shares or min(shares.values()) > threshold_layer / 100:
        return ()
    found = [name for name, share in shares.items() if share > threshold_layer / 100]
    return tuple(sorted(found, key=lambda name: (-shares[name], name)))


def _biases(window: Window, facts: ModelFacts | None) -> list[Column]:
    """The zero share of the gradients of biases that were measured often enough."""
    columns = []
    for name in window.tensors("gradients"):
        if not name.endswith("bias") or _is_of_embedding(facts, name):
            continue
        columns += [c for c in window.statistic(name, "zero_share", mode=None) if len(c.values) >= _MEASUREMENTS]
    return columns


def _reaches_weights(window: Window, bias: str, share: float) -> bool:
    """True where the weights of the layer have as few gradients as its bias, or none are known."""
    columns = window.statistic(f"{bias.removesuffix('bias')}weight", "zero_share", mode=None)
    return all(float(column.values[-_MEASUREMENTS:].min()) >= 0.9 * share for column in columns)


def _is_of_embedding(facts: ModelFacts | None, name: str) -> bool:
    module = facts.module_of(name) if facts else None
    return module is not None and module.role in {"embedding", "attention"}


def _has_no_relu(facts: ModelFacts) -> bool:
    """True where all activations are known, and none of them puts out zeros."""
    kinds = {module.activation for module in facts.modules if module.role == "activation"}
    return bool(kinds) and kinds.issubset(_WITHOUT_ZEROS)


def _has_small_batches(facts: ModelFacts) -> bool:
    sizes = [int(np.prod(loss.input_shape[:-1])) for loss in facts.losses if len(loss.input_shape) > 1]
    return bool(sizes) and max(sizes) < _FEWEST_SAMPLES
