"""runaway-updates: updates of the weights grow far beyond their recent size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import UPDATE_SIZE
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import CERTAIN
from trackside.evidence.question import Answer, Known, times_as_large
from trackside.evidence.suspects import Suspect
from trackside.rules.advice import Advice, Concerns
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import COURSE_STEPS, FEWEST_UPDATES
from trackside.situation.losses.losses import training_losses
from trackside.situation.update_growth import growth_of_updates, has_run_away, risen_rate
from trackside.trial.window import Window


@dataclass(frozen=True)
class Growth(Details):
    """Details of a finding.

    usual           usual size of an update
    largest_before  largest size of the run so far
    rate_has_risen  True if a learning rate has risen beyond all before
    """

    usual: float = 0.0
    largest_before: float = 0.0
    rate_has_risen: bool = False


def _grown_updates(known: Known) -> Answer:
    usual = Growth.of(known.lead).usual
    return times_as_large(known.lead.observed / usual if usual > 0 else math.inf)


@dataclass(frozen=True)
class RunawayUpdates(Rule):
    """Updates of the weights grow far beyond any that the run has seen.

    Why it matters:
        Before a loss explodes, the steps that throw the weights out grow: mostly some 5 to 20 steps earlier. That is
        time to stop, while the newest checkpoint is still good.

    How it decides:
        At each step u = |w' - w| / |w| is measured on a fixed sample of all weights. Let m be the median of the 50
        measurements before the newest three, and s their deviation, 1.4826 x MAD. It fires where the smallest of the
        newest three is

        1. more than m + `deviations` x s, and more than 1.5 x m,
        2. more than `beyond` times the largest that the run has lived through (of medians of three, without the first
           20 and the newest 10): a cycle, a restart or a second warm-up of the rate goes where the run has been before.

        It is a warning where a learning rate is higher than ever as well (1.2 x), and else a remark: a new task, or an
        optimizer that finds a cliff, may enlarge updates for a moment.

        A new optimizer begins a new past: a second trainer in one process has steps of its own size.

        Where measurements are thinned, to keep within the budget of the always-on statistics, their distances must be
        equal: the change over more steps is larger.

        It needs neighbouring steps: in a run that is watched in bursts, updates count whose step before was watched.

    Example:
        ```python
        import numpy as np
        from trackside.situation.update_growth import has_run_away

        calm = np.random.default_rng(0).normal(0.002, 0.0001, 100)
        assert not has_run_away(calm, deviations=6, beyond=1.2)
        assert has_run_away(np.append(calm, [0.004, 0.005, 0.006]), deviations=6, beyond=1.2)
        ```

    References:
        - Page: Continuous inspection schemes (1954).
        - Molybog et al.: A theory on Adam instability in large-scale machine learning (2023): updates that line up
          before a loss spikes.
    """

    rule_id = "runaway-updates"
    code = "TS111"
    only_of = ("pytorch", "keras")
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    escalates = True
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS)
    suspects = (*CERTAIN, Suspect(Cause.LEARNING_RATE_TOO_HIGH, _grown_updates))
    what_to_do = (
        "Print the learning rate of these steps, and see that the schedule is stepped as it should be.",
        "Lower the learning rate, or the end of its warm-up.",
        Advice("Clip the gradient norm (torch.nn.utils.clip_grad_norm_).", Concerns.UNCLIPPED_LOOPS),
        "Keep the newest checkpoint: it is from before the loss has followed.",
    )

    deviations: float = parameter(6.0, "deviations above the recent updates, above which it fires", minimum=1)
    beyond: float = parameter(1.2, "times the largest update of the run so far, above which it fires", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with updates beyond all before."""
        findings = []
        for worker in dict.fromkeys(column.worker for column in training_losses(window)):
            growth = growth_of_updates(window, worker=worker, deviations=self.deviations)
            if growth is None or not has_run_away(growth.column.values, deviations=self.deviations, beyond=self.beyond):
                continue
            has_risen = risen_rate(window, before=growth.since - COURSE_STEPS) is not None
            findings.append(
                finding_of(
                    window,
                    "all weights",
                    "change of the weights in a step, over their size",
                    growth.now,
                    above=max(growth.usual + self.deviations * growth.deviation, self.beyond * growth.peak),
                    since=growth.since,
                    worker=worker,
                    series=growth.column.series,
                    statistics=Growth(growth.usual, growth.peak, has_risen).numbers(),
                    grade=Severity.WARNING if has_risen else Severity.INFO,
                )
            )
        return findings

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough measurements of the updates."""
        most = max(
            (len(c.values) for c in window.statistic(UPDATE_SIZE, "mean", last=FEWEST_UPDATES, mode=None)), default=0
        )
        return "" if most >= FEWEST_UPDATES else f"{FEWEST_UPDATES} measured updates; the run has {most}"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return WARNING if a learning rate has risen beyond all before, else INFO."""
        has_risen = any(Growth.of(finding).rate_has_risen for finding in findings)
        return Severity.WARNING if has_risen else Severity.INFO
