"""wrong-axis: an axis is taken for another one, by a softmax or by a view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModuleFacts
from trackside.contracts.observations import MOVED_AXIS, OTHER_AXIS, OTHER_ORDER
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import LossRule
from trackside.trial.window import Window

SOFTMAX = "places under a softmax that are not the ones summed over"
VIEW = "places along an axis that a view moves"
INPUTS = "other orders of the axes, in which neighbours are alike"


@dataclass(frozen=True)
class WrongAxis(LossRule):
    """An axis is taken for another one, by a softmax or by a view.

    Why it matters:
        Attention weighs values by numbers that add up to one for each query. With `softmax(dim=-2)`, or over the heads,
        they add up to one for each key, and to anything for a query. And `view` gives any shape of the right size, but
        moves nothing: pictures, steps or heads are cut into pieces of others. Shapes fit, the loss falls a little, and
        nothing is raised.

    How it decides:
        In the graph of the training's loss:

        1. A softmax before a product of matrices was taken over another axis than the product sums over: that is the
           last one of the first matrix, and the last but one of the second. Weights that are turned in between
           (attention from both sides), or divided once more (slots that compete for keys), are left alone, and so is
           what `einsum` turns before its product.
        2. A view keeps the length of an axis and not its place, as (rows, channels, steps) to (rows, steps, channels),
           or (rows, steps, width) to (rows, heads, steps, width of a head). Shapes that a cut of one axis and a joint
           of others explain (a pyramid that joins steps) count only where the first axis is that of a convolution's
           channels, or where a softmax of the loss follows. A view after padding (the shift of relative positions) is
           left alone.

        At the first three inputs of convolutions and recurrent layers:

        3. Neighbours along an axis are unlike (mean squared difference over that of strangers at least 0.25), those in
           another order of the axes are alike (at most 0.3, and half of the others'), and these are places that the
           layer sees far apart. Values less their mean over the batch are compared, so tables and noise show nothing.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts
        from trackside.contracts.observations import MOVED_AXIS, OTHER_AXIS, OTHER_ORDER

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
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.WRONG_AXIS,)
    shows_its_cause = True
    what_to_do = (
        "Give the axis of the keys: scores.softmax(dim=-1) before scores @ values.",
        "Turn axes by transpose or permute: x.transpose(1, 2), not x.view(b, t, c). A view cuts and joins neighbours.",
        "Check that the weights of each query add up to one, and that a sample looks right after the view.",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss, and one per layer with inputs in another order."""
        facts = window.facts
        if facts is None:
            return
        for loss in facts.losses:
            places, measure = OTHER_AXIS.of(loss), SOFTMAX
            if not places:
                places, measure = MOVED_AXIS.of(loss), VIEW
            if places:
                yield self._finding(window, loss, measure, places)
        for module in facts.modules:
            if OTHER_ORDER.of(module):
                yield self._finding(window, module, INPUTS, 1)

    def _finding(self, window: Window, subject: LossFacts | ModuleFacts, measure: str, observed: int) -> Finding:
        since = window.facts.from_step if window.facts is not None else 0
        return finding_of(window, subject.name, measure, float(observed), above=0.0, since=since, place=subject.line)

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what takes an axis for another one."""
        lead = findings[0]
        if lead.measure == VIEW:
            return f"A view before {lead.subject} moves an axis of {lead.observed:.0f} without turning the values."
        if lead.measure == INPUTS:
            return f"What {lead.subject} reads lies in another order of its axes: a view took the place of a permute."
        return f"A softmax before {lead.subject} runs over an axis that its weights are not summed over."
