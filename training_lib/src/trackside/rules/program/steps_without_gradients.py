"""steps-without-gradients: the optimizer steps, and no new gradients were computed for the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.recorded_names import BACKWARD_PASSES, WITHOUT_GRADIENTS
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import Evidence
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_FEWEST_BEFORE = 10  # steps with gradients, after which their end has a moment of its own


@dataclass(frozen=True)
class StepsWithoutGradients(Rule):
    """The optimizer steps without new gradients.

    Why it matters:
        A step needs the gradients of one backward pass at least. Where `optimizer.step()` is called more often than
        `backward`, steps repeat an old gradient. Where `zero_grad` stands between `backward` and `step`, a step finds
        no gradient, and changes nothing. The loss is computed all the same, and nothing is ever raised.

    How it decides:
        The hook counts backward passes, and notes at each step how many came since the optimizer's step before, and
        whether any parameter had a gradient.

        1. Over the newest `steps` steps of a worker, let s be the share of steps without a backward pass since the
           optimizer's step before, or without any gradient.
        2. It fires where s is at least `share`.
        3. The cause is the order of the calls; but where parameters with gradients are in no optimizer, and none that
           an optimizer holds gets any, it steps on others than the model uses: copies from before they were replaced.

        A few such steps, as in a warm-up, are silent. So are steps whose gradients come another way than by a backward
        pass: from `torch.autograd.grad`, from an evolution strategy, from a captured graph. They are new if they are
        other tensors than at the step before, or were written to since by more than clipping. Of several optimizers
        that step together, a gradient of one is enough. Amazon's Debugger has no such rule. It needs the always-on
        statistics, and nothing else.

    What to do:
        Call `zero_grad`, `backward` and `step` in this order, each once for a batch. Where gradients of several
        batches are accumulated, step only after the last of them.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.steps_without_gradients import idle_share

        passes = np.tile([1.0, 0.0], 20)  # two steps for each backward pass
        assert idle_share(passes, np.zeros(40), steps=20) == 0.5
        assert idle_share(np.ones(40), np.zeros(40), steps=20) == 0.0
        assert idle_share(np.ones(5), np.zeros(5), steps=20) is None  # too early to tell
        ```

    References:
        - PyTorch, `torch.optim`, "Taking an optimization step": the order of the three calls.
        - TrainCheck (OSDI 2025): the order of these calls as an invariant.
    """

    rule_id = "steps-without-gradients"
    code = "TS212"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses", "gradients")
    save_interval = 500
    needs = ()
    paced = True
    severity = Severity.WARNING
    since = "0.1"
    likely_causes = (Cause.STEP_ORDER, Cause.PARAMETERS_NOT_IN_OPTIMIZER, Cause.FROZEN_PARAMETERS)
    shows_its_cause = True
    what_to_do = (
        "Call optimizer.zero_grad(), loss.backward() and optimizer.step() in this order, each once for a batch.",
        "If gradients are accumulated, call step only after the last backward pass of them.",
        "Build the optimizer after the model was moved, wrapped or sharded, from the parameters that it has then.",
    )

    steps: int = parameter(20, "newest steps that are looked at", minimum=2)
    share: float = parameter(0.25, "share of them without new gradients", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with steps without new gradients."""
        columns = window.statistic(BACKWARD_PASSES, "mean", mode=None)
        return [found for column in columns if (found := self._judge(window, column)) is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: rows of enough steps."""
        columns = window.statistic(BACKWARD_PASSES, "mean", mode=None)
        if any(len(column.values) >= self.steps for column in columns):
            return ""
        return f"{self.steps} steps whose backward passes were counted"

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return the causes that the facts show, else the order of the calls.

        Frozen parameters, if the optimizers hold no others. Parameters in no optimizer, if those alone get gradients,
        or if gradients came until some step and none has since: the order of the calls was right before.
        """
        inside = [p for p in window.facts.parameters if p.optimizer] if window.facts else []
        if inside and not any(p.requires_grad for p in inside):
            because = f"none of the {len(inside)} parameters in the optimizers requires a gradient"
            return (Suspicion(Cause.FROZEN_PARAMETERS, because), Suspicion(Cause.STEP_ORDER))
        outside = Evidence(window).outside_optimizers
        held = [p for p in window.facts.parameters if p.optimizer and p.has_gradient] if window.facts else []
        if outside and not held and any(finding.subject == WITHOUT_GRADIENTS for finding in findings):
            because = f"{len(outside)} parameters get gradients, and no optimizer holds any of them"
            return (Suspicion(Cause.PARAMETERS_NOT_IN_OPTIMIZER, because), Suspicion(Cause.STEP_ORDER))
        ended = [f for f in findings if f.subject == WITHOUT_GRADIENTS and f.statistics["came_before"]]
        if ended:
            because = f"gradients came until step {ended[0].since_step}: parameters were replaced, or frozen"
            others = (Cause.FROZEN_PARAMETERS, Cause.STEP_ORDER)
            return (Suspicion(Cause.PARAMETERS_NOT_IN_OPTIMIZER, because), *map(Suspicion, others))
        return super().suspicions(findings, window)

    def _judge(self, window: Window, column: Column) -> Finding | None:
        is_empty = _is_noted(column, window.statistic(WITHOUT_GRADIENTS, "mean", mode=None))
        share = idle_share(column.values, is_empty, steps=self.steps)
        if share is None or not share >= self.share or not share > 0:
            return None
        idle = np.flatnonzero((column.values == 0) | (is_empty > 0))
        recent = idle[idle >= len(column.steps) - self.steps]
        came_before = idle[0] >= _FEWEST_BEFORE and len(idle) == len(column.steps) - idle[0]
        facts = window.facts
        return Finding(
            subject=WITHOUT_GRADIENTS if is_empty[recent].all() else BACKWARD_PASSES,
            worker=column.worker,
            step=window.step,
            since_step=int(column.steps[recent[0]]),
            measure="share of steps without new gradients",
            observed=share,
            relation=">",
            threshold=min(self.share, float(np.nextafter(share, -1))),
            statistics={"came_before": float(came_before)},
            series=column.series,
            place=facts.losses[0].backward_line if facts and facts.losses else "",
        )


def idle_share(passes: NDArray[np.float64], is_empty: NDArray[np.float64], *, steps: int) -> float | None:
    """Return the share of the newest `steps` steps without a backward pass or a gradient; None with fewer steps.

    Args:
        passes: Backward passes of each step, shape (n,).
        is_empty: 1 for each step without any gradient, else 0; shape (n,).
        steps: Number of steps.
    """
    if len(passes) < steps:
        return None
    return float(np.mean((passes[-steps:] == 0) | (is_empty[-steps:] > 0)))


def _is_noted(column: Column, notes: Iterable[Column]) -> NDArray[np.float64]:
    """Return 1 for each step of the column with a note of the same worker, else 0; shape of the column."""
    steps = [note.steps[note.values > 0] for note in notes if note.worker == column.worker]
    return np.isin(column.steps, np.concatenate(steps)).astype(np.float64) if steps else np.zeros(len(column.steps))
