"""stalled-training: no step has come for a long time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, FindingKind, Severity
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Window


@dataclass(frozen=True)
class StalledTraining(Rule):
    """No step has come for a long time, and the training has not ended.

    Why it matters:
        A data loader that waits for ever, or a rank that waits for another, keeps the machine busy doing nothing until
        somebody looks. Collective libraries give up after half an hour at best.

    How it decides:
        Judges while the evaluator waits for more of a run that has not ended:

        1. w is the time since the newest step was seen, in seconds.
        2. It fires where w > `threshold`. The always-on statistics hold every step, so that the distance between
           saved steps does not matter; without them, choose a threshold longer than that distance.

        The time before the first step, in which data are fetched and models compiled, does not count; nor does that
        after the end of the run. A run that goes on recovers. Amazon's StalledTrainingRule has the same threshold, and
        stops the job itself on request; here that is an action like any other.

    Example:
        ```python
        from trackside.rules.tensors.stalled_training import is_stalled

        assert is_stalled(waited_seconds=2000.0, threshold=1800)
        assert not is_stalled(waited_seconds=60.0, threshold=1800)
        ```

    References:
        - Amazon SageMaker Debugger, built-in rule StalledTrainingRule: the threshold of 1,800 seconds.
    """

    rule_id = "stalled-training"
    code = "TS114"
    watches = ("losses", "gradients", "weights")
    needs = ()
    paced = True
    judges_waiting = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.STALLED,)
    what_to_do = (
        "Look at the stacks of the training's processes: py-spy dump --pid PID.",
        "With several ranks, look at each: one that waits for another shows where.",
        "If evaluations or checkpoints take that long on purpose, set a longer threshold.",
    )

    threshold: int = parameter(1800, "seconds without a new step that count as a stall", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding once the newest step is too old."""
        waited = window.now - window.newest_step_at
        if not is_stalled(waited_seconds=waited, threshold=self.threshold):
            return []
        return [
            finding_of(
                window,
                "steps",
                "seconds without a new step",
                waited,
                above=float(self.threshold),
                kind=FindingKind.STANDSTILL,
            )
        ]


def is_stalled(*, waited_seconds: float, threshold: float) -> bool:
    """Return True if the waiting time exceeds the threshold."""
    return waited_seconds > threshold
