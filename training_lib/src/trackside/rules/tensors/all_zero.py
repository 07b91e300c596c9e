"""all-zero: tensors that hold nothing but zeros."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, at_step, selected
from trackside.situation.constants import A_HAIR
from trackside.trial.window import Window


@dataclass(frozen=True)
class AllZero(Rule):
    """Tensors hold nothing but zeros, or hardly anything else.

    Why it matters:
        A gradient of zeros moves nothing, an input of zeros carries nothing, an output of zeros lets nothing through.

    How it decides:
        For each tensor of `collection_names`, and each whose name a regex of `tensor_regex` finds (both empty:
        gradients), at each step at which it was saved or recorded:

        1. z is the share of its elements that are exactly zero, in percent.
        2. It fires where z is at least `threshold`.

        It judges only where it was chosen: what may hold zeros depends on the model. Amazon's AllZero is the same; its
        documentation does not say whether the threshold itself fires, and its default of 100 leaves no other reading.

    Example:
        ```python
        from trackside.rules.tensors.all_zero import AllZero

        assert AllZero(collection_names="weights").threshold == 100
        ```

    References:
        - Amazon SageMaker Debugger, built-in rule AllZero.
    """

    rule_id = "all-zero"
    code = "TS101"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = ()
    since = "0.1"
    likely_causes = (Cause.DEAD_UNITS, Cause.SYMMETRIC_INITIALIZATION)
    what_to_do = ("Look at what computes the tensor: a dead ReLU, a mask, weights that start at zero.",)

    collection_names: str = parameter("", "collections to look at, separated by commas")
    tensor_regex: str = parameter("", "regexes of tensor names, separated by commas")
    threshold: float = parameter(100.0, "share of zeros in percent from which on it fires", minimum=0, maximum=100)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per tensor."""
        names = selected(
            window, collection_names=self.collection_names, tensor_regex=self.tensor_regex, default=("gradients",)
        )
        found = [(c, round(100 * float(c.values[-1]), 9)) for c in at_step(window, names, "zero_share")]
        return [
            finding_of(
                window,
                column,
                "non-zero values in %",
                100 - percent,
                below=100 - self.threshold if percent > self.threshold else 100 - self.threshold + A_HAIR,
                series=tuple([(step, 100 - 100 * value) for step, value in column.series]),
            )
            for column, percent in found
            if percent >= self.threshold
        ]
