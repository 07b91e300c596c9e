"""wrong-axis: a softmax runs over another axis than the one that its weights are summed over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import OTHER_AXIS
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import LossRule
from trackside.trial.window import Window

MEASURE = "places under a softmax that are not the ones summed over"


@dataclass(frozen=True)
class WrongAxis(LossRule):
    """A softmax runs over another axis than the one that its weights are summed over.

    Why it matters:
        Attention weighs values by numbers that add up to one for each query. With `softmax(dim=-2)`, or over the heads,
        they add up to one for each key, and to anything for a query. Shapes fit, the loss falls a little, and nothing
        is raised.

    How it decides:
        In the graph of the training's loss:

        1. The hook looks for products of matrices of which one is the result of a softmax. A product sums over the last
           axis of its first matrix, and over the last but one of its second.
        2. It fires where the softmax was taken over any other axis.

        Weights that are turned in between (attention from both sides), or divided once more (slots that compete for
        keys), are left alone, and so is what `einsum` turns before its product.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts
        from trackside.contracts.observations import OTHER_AXIS

        loss = LossFacts("CrossEntropyLoss_output_0", observed={OTHER_AXIS: 24})
        assert OTHER_AXIS.of(loss) == 24
        ```

    References:
        - Vaswani et al.: Attention is all you need (NeurIPS 2017), equation 1.
        - Humbatova et al., Taxonomy of real faults in deep learning systems (ICSE 2020): wrong shapes and axes.
    """

    rule_id = "wrong-axis"
    code = "TS228"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.WRONG_AXIS,)
    shows_its_cause = True
    what_to_do = (
        "Give the axis of the keys: scores.softmax(dim=-1) before scores @ values.",
        "Check that the weights of each query add up to one.",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss."""
        facts = window.facts
        return [
            finding_of(
                window,
                loss.name,
                MEASURE,
                float(OTHER_AXIS.of(loss)),
                above=0.0,
                since=facts.from_step,
                place=loss.line,
            )
            for loss in (facts.losses if facts is not None else ())
            if facts is not None and OTHER_AXIS.of(loss)
        ]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: where the softmax stands."""
        return f"A softmax before {findings[0].subject} runs over an axis that its weights are not summed over."
