"""learning-rate-collapsed: the schedule has all but switched the learning off, and the training goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.measurements import Evidence
from trackside.situation.rates import collapsed_at
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class LearningRateCollapsed(NetworkRule):
    """The schedule has all but switched the learning off while the training goes on.

    Why it matters:
        A scheduler that is stepped once per batch where it expects epochs divides the rate again and again within the
        first minutes. The loss stands still from then on, at whatever it had reached, and the rest of the job is waste.

    How it decides:
        For each parameter group, with its learning rate at each step:

        1. The peak is the largest rate so far. The rate has collapsed from the step on after which it stayed below
           `share` of the peak.
        2. It fires once the training has gone on for at least `steps` steps since then, and for more than half as many
           as it had before.

        Schedules that end at zero (cosine, one-cycle, linear) get there in their last steps and are silent; so is a
        warm-up, which begins low. A rate that is zero from the start is no schedule, but shows as weights that never
        change.

        It needs no neighbouring steps: steps at rest, between two watched ones, count for how long ago it was.

    Example:
        ```python
        import numpy as np
        from trackside.situation.rates import collapsed_at

        stepped_per_batch = 0.1 * 0.1 ** (np.arange(100) // 10)
        assert collapsed_at(stepped_per_batch, share=1e-3, steps=20) == 40

        cosine = 0.05 * (1 + np.cos(np.pi * np.arange(101) / 100))
        assert collapsed_at(cosine, share=1e-3, steps=20) is None
        ```

    References:
        - PyTorch, `torch.optim.lr_scheduler`: which schedulers are stepped per epoch.
    """

    rule_id = "learning-rate-collapsed"
    code = "TS204"
    watches = ("hyperparameters", "losses")
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_SCHEDULE, Cause.LEARNING_RATE_TOO_LOW)
    what_to_do = (
        "Step the scheduler as it expects: once per epoch or once per batch.",
        "Print the learning rate of each epoch before a long run.",
    )

    share: float = parameter(1e-3, "share of its peak below which a rate counts as collapsed", minimum=0, maximum=1)
    steps: int = parameter(20, "steps that the training must have gone on for since then", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per parameter group."""
        columns = Evidence(window).learning_rates
        return [found for column in columns if (found := self._judge(window, column)) is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: learning rates."""
        return "" if Evidence(window).learning_rates else "the learning rate, which the always-on statistics record"

    def _judge(self, window: Window, column: Column) -> Finding | None:
        places = window.rests(column.worker).places(column.steps)
        since = collapsed_at(column.values, share=self.share, steps=self.steps, places=places)
        if since is None:
            return None
        peak = float(column.values.max())
        facts = window.facts
        optimizer = facts.optimizer(column.tensor.split("/")[1]) if facts else None
        return finding_of(
            window,
            column,
            "learning rate",
            float(column.values[-1]),
            below=self.share * peak,
            since=int(column.steps[since]),
            statistics={"peak": peak},
            place=optimizer.line if optimizer else "",
        )
