"""stalled-training, as Amazon documents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION
from trackside.trial.window import Window


@dataclass(frozen=True)
class DocumentedStalledTraining(Rule):
    """No tensor has come for a long time.

    Documented: fires where nothing new was saved for `threshold` seconds. Whether that counts from the start of the job
    is not documented: here from the first step on, so that downloads and compilation are no stall; nor is anything
    after the end of the run. The always-on statistics of a step count as a tensor. `stop_training_on_fire` and
    `training_job_name_prefix` are the action StopTraining, which stops the very job that is judged.
    """

    rule_id = "stalled-training"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = ()
    judges_waiting = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.STALLED,)
    what_to_do = ("Look at the stacks of the training's processes: py-spy dump --pid PID.",)

    threshold: int = parameter(1800, "seconds without a new tensor that count as a stall", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding once the newest step is too old."""
        waited = window.now - window.newest_step_at
        if not waited > self.threshold:
            return []
        return [finding_of(window, "steps", "seconds without a new tensor", waited, above=float(self.threshold))]
