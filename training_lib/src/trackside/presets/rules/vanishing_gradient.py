"""vanishing-gradient, as Amazon documents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import at_step
from trackside.trial.window import Window


@dataclass(frozen=True)
class DocumentedVanishingGradient(Rule):
    """The mean absolute value of a gradient is below the threshold.

    Documented: fires where mean(|g|) of a gradient tensor drops below `threshold`. An older text says that a single
    tensor suffices, which is what is done here. Frozen parameters and converged runs fire.
    """

    rule_id = "vanishing-gradient"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = ("gradients",)
    needs = (CollectionRequest("gradients", Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.VANISHING_GRADIENTS,)
    what_to_do = ("Use ReLU, normalisation or residual connections.",)

    threshold: float = parameter(1e-7, "mean |gradient| below which it counts as vanished", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per gradient, the smallest first."""
        columns = [c for c in at_step(window, window.tensors("gradients"), "abs_mean") if c.values[-1] < self.threshold]
        return [
            finding_of(window, column, "mean |gradient|", float(column.values[-1]), below=self.threshold)
            for column in sorted(columns, key=lambda column: float(column.values[-1]))
        ]
