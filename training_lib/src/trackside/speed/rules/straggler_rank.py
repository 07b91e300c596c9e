"""straggler-rank: one rank makes the others wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.speed.speed_rule import BACKWARD, STEPS, SpeedRule, found_in, step_times
from trackside.trial.window import Window


@dataclass(frozen=True)
class StragglerRank(SpeedRule):
    """One rank takes longer for its own work than the others, which wait for it at each step.

    Why it matters:
        Data-parallel training goes on at the pace of its slowest rank. With a hundred ranks, one slow disk makes
        ninety-nine GPUs idle, and each of them shows the same long step.

    How it decides:
        For runs of several ranks, over the newest `steps` steps that all of them have:

        1. All ranks meet in the backward pass, where gradients are averaged. A rank's own work is the rest of its step:
           its data, its forward pass, its Python.
        2. The straggler is the rank with the most own work. It fires where that is above the median rank's by more than
           `share` of the step.

        The backward pass itself is not compared: each rank's contains its waits for the others.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        from trackside.speed.rules.straggler_rank import straggler

        worker, score = straggler({"worker_0": 0.01, "worker_1": 0.03, "worker_2": 0.01}, step=0.04)
        assert (worker, round(score, 2)) == ("worker_1", 0.5)
        ```

    References:
        - TraceML, DIAGNOSIS.md: the culprit is the rank with the least wait.
    """

    rule_id = "straggler-rank"
    code = "TS413"
    only_of = ("pytorch",)
    likely_causes = (Cause.UNEVEN_WORK,)
    what_to_do = (
        "Compare the named rank's data, batches, disk and GPU with those of the others.",
        "Look at `trackside profile`: it shows the phases of each rank, the slowest first.",
    )

    steps: int = parameter(50, "newest steps that are looked at", minimum=2)
    share: float = parameter(0.2, "share of the step that the others wait", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding about the slowest rank."""
        ranks = [times.newest(self.steps) for times in step_times(window) if len(times.steps) >= self.steps]
        if len(ranks) < 2:
            return
        own = {
            times.worker: float(np.median(times.seconds - times.phases.get(BACKWARD, np.zeros(len(times.seconds)))))
            for times in ranks
        }
        step = float(np.median([np.median(times.seconds) for times in ranks]))
        worker, score = straggler(own, step=step)
        if score > self.share:
            yield found_in(
                window,
                STEPS,
                measure="share of the step that other ranks wait for it",
                observed=score,
                threshold=self.share,
                since=int(ranks[0].steps[0]),
                worker=worker,
                statistics={"own_ms": 1000 * own[worker], "step_ms": 1000 * step},
            )

    def lacks(self, window: Window) -> str:
        """Name the missing input: several ranks with timed steps."""
        ranks = [len(times.steps) for times in step_times(window)]
        if len(ranks) < 2:
            return f"timed steps of several ranks; the run has {len(ranks)}"
        return "" if sorted(ranks)[-2] >= self.steps else f"{self.steps} timed steps of each rank"


def straggler(own: Mapping[str, float], *, step: float) -> tuple[str, float]:
    """Return the rank with the most own work, and by how much of a step that is above the median of the others."""
    worker = max(own, key=lambda name: own[name])
    others = float(np.median([seconds for name, seconds in own.items() if name != worker]))
    return worker, (own[worker] - others) / step if step > 0 else 0.0
