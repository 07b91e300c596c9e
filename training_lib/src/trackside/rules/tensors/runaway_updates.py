"""runaway-updates: updates of the weights grow far beyond their recent size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.recorded_names import UPDATE_SIZE
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import certain_causes, training_losses
from trackside.rules.rule import Rule, parameter
from trackside.rules.update_growth import FEWEST, growth_of_updates, has_run_away, risen_rate
from trackside.trial.window import Window

_BEFORE = 10  # steps before the growth that do not count as before


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
        equal: the change over more steps is larger. Amazon's Debugger has no such rule.

    What to do:
        Look at the learning rate and at the optimizer's settings of these steps; stop before the loss follows.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.runaway_updates import has_run_away

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
    save_interval = 500
    needs = ()
    severity = Severity.WARNING
    escalates = True
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS)
    what_to_do = (
        "Print the learning rate of these steps, and see that the schedule is stepped as it should be.",
        "Lower the learning rate, or the end of its warm-up.",
        "Clip the gradient norm (torch.nn.utils.clip_grad_norm_).",
        "Keep the newest checkpoint: it is from before the loss has followed.",
    )

    deviations: float = parameter(6.0, "deviations above the recent updates, above which it fires", minimum=1)
    beyond: float = parameter(1.2, "times the largest update of the run so far, above which it fires", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with updates beyond all before.

        Args:
            window: The run up to the step to judge.
        """
        findings = []
        for worker in dict.fromkeys(column.worker for column in training_losses(window)):
            growth = growth_of_updates(window, worker=worker, deviations=self.deviations)
            if growth is None or not has_run_away(growth.column.values, deviations=self.deviations, beyond=self.beyond):
                continue
            findings.append(
                Finding(
                    subject="all weights",
                    worker=worker,
                    step=window.step,
                    since_step=growth.since,
                    measure="change of the weights in a step, over their size",
                    observed=growth.now,
                    relation=">",
                    threshold=max(growth.usual + self.deviations * growth.deviation, self.beyond * growth.peak),
                    statistics={
                        "usual": growth.usual,
                        "largest_before": growth.peak,
                        "rate_has_risen": float(risen_rate(window, before=growth.since - _BEFORE) is not None),
                    },
                    series=growth.column.series,
                )
            )
        return findings

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough measurements of the updates.

        Args:
            window: The run up to the step to judge.
        """
        most = max((len(c.values) for c in window.statistic(UPDATE_SIZE, "mean", last=FEWEST, mode=None)), default=0)
        return "" if most >= FEWEST else f"{FEWEST} measured updates; the run has {most}"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return WARNING if a learning rate has risen beyond all before, else INFO.

        Args:
            findings: The findings.
        """
        has_risen = any(finding.statistics["rate_has_risen"] for finding in findings)
        return Severity.WARNING if has_risen else Severity.INFO

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return a learning rate that is too high, with the size of the updates as evidence.

        Args:
            findings: The findings, worst first.
            window: The run up to the judged step.
        """
        lead = findings[0]
        times = lead.observed / lead.statistics["usual"] if lead.statistics["usual"] > 0 else math.inf
        because = f"updates of the weights are {times:.3g} times as large as in the 50 steps before"
        return (*certain_causes(window), Suspicion(Cause.LEARNING_RATE_TOO_HIGH, because))
