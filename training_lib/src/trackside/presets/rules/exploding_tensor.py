"""exploding-tensor, as Amazon documents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, FindingKind, Severity
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, at_step, selected
from trackside.trial.window import Window


@dataclass(frozen=True)
class DocumentedExplodingTensor(Rule):
    """A saved tensor holds a value that is not finite.

    Documented: any infinite or NaN value in the selected tensors; `only_nan` for NaN alone. With neither
    `collection_names` nor `tensor_regex`: all tensors that were saved, masks of minus infinity included.
    """

    rule_id = "exploding-tensor"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = ()
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS)
    what_to_do = ("Lower the learning rate, and clip the gradient by its norm.",)

    collection_names: str = parameter("", "collections to look at, separated by commas; empty: see tensor_regex")
    tensor_regex: str = parameter("", "regexes of tensor names, separated by commas; both empty: all tensors")
    only_nan: bool = parameter(False, "true: infinity is allowed, only NaN is an issue")

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per tensor."""
        names = selected(
            window,
            collection_names=self.collection_names,
            tensor_regex=self.tensor_regex,
            default=EVERY_COLLECTION,
        )
        statistic = "nan_count" if self.only_nan else "nonfinite_count"
        return [
            finding_of(
                window,
                column,
                "NaN values" if self.only_nan else "non-finite values",
                float(column.values[-1]),
                above=0.0,
                kind=FindingKind.NOT_FINITE,
            )
            for column in at_step(window, names, statistic)
            if column.values[-1] > 0
        ]
