"""saturated-activation: units that sit at the flat ends of sigmoid or tanh."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.verdict import Finding
from trackside.evidence.causes import TORN
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import ALL_BUT_A_FEW, ENOUGH_SAMPLES, LEARNED, MOST_VALUES
from trackside.situation.losses.losses import learned_share
from trackside.trial.window import Window


@dataclass(frozen=True)
class SaturatedActivation(Rule):
    """Many units of a layer sit at the flat ends of their activation.

    Why it matters:
        At the ends of sigmoid and tanh the slope is next to nothing: whatever the loss wants of a unit there, hardly
        anything of it arrives. The layer, and all layers before it, learn slowly or not at all.

    How it decides:
        On the inputs of sigmoid and tanh layers (`saturating_inputs`, saved now and then), for each unit (channel, for
        images) over the samples of a batch of at least 8:

        1. A sample saturates the unit where the slope is below a hundredth of its largest: |x| > `limit_tanh` (3.0) for
           tanh, |x| > `limit_sigmoid` (5.3) for sigmoid.
        2. A unit is saturated where 95 % of the samples saturate it.
        3. It fires where more than `threshold_layer` percent of a layer's units are saturated.
        4. A model that has learned, with less than 70 % of its first loss left, is silent: gates and outputs of a
           trained model saturate because they are sure.

        Functional activations (`torch.tanh`) are no modules and are not seen here; what they do to the gradients is
        (`vanishing-gradient`). Amazon's SaturatedActivation has limits at which the slope is 1e-7 of its largest, which
        no unit reaches before it has long stopped learning; it is the preset `aws-docs`.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.saturated_activation import saturated_share

        inputs = np.tile([0.1, 9.0, -9.0, 0.2], (16, 1))
        assert saturated_share(inputs, limit=3.0) == 0.5
        ```

    References:
        - Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks (2010), section 3.
        - Amazon SageMaker Debugger, built-in rule SaturatedActivation: `threshold_layer`.
    """

    rule_id = "saturated-activation"
    code = "TS112"
    is_of_networks = True
    watches = ("saturating_inputs",)
    save_interval = 50
    needs = (CollectionRequest("saturating_inputs", Schedule(50, end_step=1001)),)
    patience = 2
    since = "0.1"
    likely_causes = (Cause.SATURATED_UNITS, Cause.BAD_INITIALIZATION)
    suspects = (
        Suspect(Cause.SATURATED_UNITS, "{observed:.0f} % of the units of {subject}"),
        FirstOf(TORN, (Suspect(Cause.BAD_INITIALIZATION),)),
    )
    what_to_do = (
        "Initialise smaller (Xavier), and normalise the inputs.",
        "Put a normalisation before the activation, or use ReLU instead.",
    )

    threshold_layer: float = parameter(
        50.0, "share of a layer's units, in percent, above which it is saturated", minimum=0, maximum=100
    )
    limit_tanh: float = parameter(3.0, "input of tanh beyond which it is flat", minimum=0)
    limit_sigmoid: float = parameter(5.3, "input of sigmoid beyond which it is flat", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per layer that is saturated, the worst first."""
        learned = learned_share(window)
        if learned is not None and learned > LEARNED:
            return []
        columns = window.columns("saturating_inputs", "mean", last=1)
        judged = [self._judge(window, c.tensor, c.worker) for c in columns if c.steps[-1] == window.step]
        return sorted((finding for finding in judged if finding is not None), key=lambda finding: -finding.observed)

    def _judge(self, window: Window, name: str, worker: str) -> Finding | None:
        module = window.facts.module_of(name) if window.facts else None
        is_tanh = module.activation == "tanh" if module else "tanh" in name.lower()
        try:
            inputs = window.value(name, worker=worker)
        except TensorNotSavedError:  # reductions only
            return None
        share = saturated_share(inputs, limit=self.limit_tanh if is_tanh else self.limit_sigmoid)
        if share is None or not 100 * share > self.threshold_layer:
            return None
        return finding_of(
            window,
            name,
            "saturated units in %",
            100 * share,
            above=self.threshold_layer,
            worker=worker,
            place=module.line if module else "",
        )


def saturated_share(inputs: NDArray[np.generic], *, limit: float) -> float | None:
    """Return the share of units that nearly all samples saturate; None if the batch is too small to judge.

    `inputs`: (samples, units), (samples, positions, units), or (samples, channels, height, width).
    """
    if inputs.ndim < 2 or len(inputs) < ENOUGH_SAMPLES or inputs.dtype.kind != "f" or not inputs.size:
        return None
    units = np.moveaxis(inputs, 1, -1) if inputs.ndim >= 4 else inputs
    rows = units.reshape(-1, units.shape[-1])
    rows = rows[: max(ENOUGH_SAMPLES, MOST_VALUES // max(1, rows.shape[1]))]
    is_flat = (np.abs(rows.astype(np.float64)) > limit).mean(axis=0)
    return float((is_flat >= ALL_BUT_A_FEW).mean())
