"""flat-function: a function without a slope lets no gradient through to weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import FLAT_FUNCTION
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import LossRule
from trackside.trial.window import Window

_MEASURES = {name: f"parameters behind {name}" for name in ("round", "sign", "sgn", "floor", "ceil", "trunc")}
_NAMES = {measure: name for name, measure in _MEASURES.items()}


@dataclass(frozen=True)
class FlatFunction(LossRule):
    """Weights lie behind a function without a slope, so that they are never trained.

    Why it matters:
        The slope of round, sign and floor is zero wherever there is one. Their gradient is defined, and it is zero: no
        error is raised, and what lies behind stays at its random start. The layers after it, biases and norms still
        learn, so that the loss falls, only not as far as it could. Quantisation, spikes and hard choices need a
        gradient of their own, most simply one that passes straight through.

    How it decides:
        1. In the graph of the training's loss every way to some parameters leads through round, sign, sgn, floor, ceil
           or trunc.

        Where `x + (x.round() - x).detach()` stands, or a function with a gradient of its own, the graph has
        no such node. Silent where another loss of the training reaches its parameters otherwise, and for a graph of
        more than 20,000 nodes.

        Severity: a warning.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts
        from trackside.contracts.observations import FLAT_FUNCTION

        loss = LossFacts("CrossEntropyLoss_output_0", observed={FLAT_FUNCTION: ("round", "(16, 8)")})
        assert FLAT_FUNCTION.of(loss)[0] == "round"
        ```

    References:
        - Bengio, Leonard, Courville: Estimating or propagating gradients through stochastic neurons (2013).
        - PyTorch issue 32602: gradients of torch.round.
    """

    rule_id = "flat-function"
    code = "TS236"
    only_of = ("pytorch",)
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.FLAT_FUNCTION,)
    shows_its_cause = True
    what_to_do = (
        "Let gradients pass straight through: x + (x.round() - x).detach(), or an autograd.Function of your own.",
        "If these weights are to stay as they are, say so: requires_grad_(False).",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss."""
        facts = window.facts
        if facts is None or not all(FLAT_FUNCTION.of(loss) for loss in facts.losses):
            return
        for loss in facts.losses:
            name, *shapes = FLAT_FUNCTION.of(loss)
            count = float(len(shapes))
            yield finding_of(
                window, loss.name, _MEASURES[name], count, above=0.0, since=facts.from_step, place=loss.line
            )

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what lets no gradient through."""
        lead = findings[0]
        count = f"{lead.observed:.0f} parameter{'' if lead.observed == 1 else 's'}"
        return f"No gradient of {lead.subject} gets through {_NAMES[lead.measure]} to {count}."
