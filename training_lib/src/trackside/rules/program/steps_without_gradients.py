"""steps-without-gradients: the optimizer steps, and no new gradients were computed for the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import OptimizerFacts
from trackside.contracts.observations import HAS_GRADIENT, NEVER_HAD_GRADIENT
from trackside.contracts.run.recorded_names import BACKWARD_PASSES, WITHOUT_GRADIENTS
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import COURSE_STEPS, LONG_STEPS
from trackside.trial.window import Column, Window

EMPTY = "gradients that its steps ever found"


@dataclass(frozen=True)
class EmptySteps(Details):
    """Details of a finding.

    came_before  True if gradients came until some step
    """

    came_before: bool = False


def _none_requires_a_gradient(known: Known) -> Answer:
    inside = [p for p in known.window.facts.parameters if p.optimizer] if known.window.facts else []
    is_frozen = bool(inside) and not any(p.requires_grad for p in inside)
    return is_frozen and f"none of the {len(inside)} parameters in the optimizers requires a gradient"


def _none_is_held(known: Known) -> Answer:
    """Return the optimizers without any parameter, as where all were frozen when they were made."""
    optimizers = known.window.facts.optimizers if known.window.facts else ()
    is_so = bool(optimizers) and all(one.groups and not one.parameter_count for one in optimizers)
    return is_so and f"{optimizers[0].name} holds no parameter: all were frozen when it was made"


def _only_outside(known: Known) -> Answer:
    """Return the number of parameters in no optimizer that get gradients, where those in the optimizers get none."""
    outside, facts = known.seen.outside_optimizers, known.window.facts
    held = [p for p in facts.parameters if p.optimizer and HAS_GRADIENT.of(p)] if facts else []
    is_so = bool(outside) and not held and any(finding.subject == WITHOUT_GRADIENTS for finding in known.findings)
    return is_so and f"{len(outside)} parameters get gradients, and no optimizer holds any of them"


def _one_is_empty(known: Known) -> Answer:
    """Return the optimizer that stepped and never had a gradient, while another had some."""
    empty = [finding.subject for finding in known.findings if finding.measure == EMPTY]
    return (
        bool(empty) and f"no gradient was there at any step of {empty[0]}: they were cleared, or its outputs detached"
    )


def _gradients_ended(known: Known) -> Answer:
    """Return the step until which gradients came, with none since: the order of the calls was right before."""
    ended = [f for f in known.findings if f.subject == WITHOUT_GRADIENTS and EmptySteps.of(f).came_before]
    return bool(ended) and f"gradients came until step {ended[0].since_step}: parameters were replaced, or frozen"


@dataclass(frozen=True)
class StepsWithoutGradients(PyTorchRule):
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
        that step together, a gradient of one is enough.

        But it also fires where one of several optimizers has stepped for 100 steps, or to the end of the run, and never
        had a gradient, although its parameters require one. So it is with a generator that learns from outputs which
        were detached.

        In a run that is watched in bursts, the newest steps are the newest watched ones.

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
    watches = ("losses", "gradients")
    since = "0.1"
    likely_causes = (Cause.STEP_ORDER, Cause.PARAMETERS_NOT_IN_OPTIMIZER, Cause.FROZEN_PARAMETERS)
    suspects = (
        FirstOf(
            (Suspect(Cause.FROZEN_PARAMETERS, _none_requires_a_gradient),),
            (Suspect(Cause.FROZEN_PARAMETERS, _none_is_held), Suspect(Cause.PARAMETERS_NOT_IN_OPTIMIZER)),
            (Suspect(Cause.FROZEN_PARAMETERS, _one_is_empty), Suspect(Cause.STEP_ORDER)),
            (Suspect(Cause.PARAMETERS_NOT_IN_OPTIMIZER, _only_outside),),
            (Suspect(Cause.PARAMETERS_NOT_IN_OPTIMIZER, _gradients_ended), Suspect(Cause.FROZEN_PARAMETERS)),
            (),
        ),
        Suspect(Cause.STEP_ORDER),
    )
    shows_its_cause = True
    what_to_do = (
        "Call optimizer.zero_grad(), loss.backward() and optimizer.step() in this order, each once for a batch.",
        "If gradients are accumulated, call step only after the last backward pass of them.",
        "Build the optimizer after the model was moved, wrapped or sharded, from the parameters that it has then.",
        "See that nothing detaches the outputs of a second model, a generator or a policy, from the loss it learns by.",
    )

    steps: int = parameter(20, "newest steps that are looked at", minimum=2)
    share: float = parameter(0.25, "share of them without new gradients", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with steps without new gradients."""
        columns = window.statistic(BACKWARD_PASSES, "mean", mode=None)
        found = [found for column in columns if (found := self._judge(window, column)) is not None]
        return found or [_empty(window, optimizer) for optimizer in _without_any(window)]

    def lacks(self, window: Window) -> str:
        """Name the missing input: rows of enough steps."""
        columns = window.statistic(BACKWARD_PASSES, "mean", mode=None)
        if any(len(column.values) >= self.steps for column in columns):
            return ""
        return f"{self.steps} steps whose backward passes were counted"

    def _judge(self, window: Window, column: Column) -> Finding | None:
        is_empty = _is_noted(column, window.statistic(WITHOUT_GRADIENTS, "mean", mode=None))
        share = idle_share(column.values, is_empty, steps=self.steps)
        if share is None or not share >= self.share or not share > 0:
            return None
        idle = np.flatnonzero((column.values == 0) | (is_empty > 0))
        recent = idle[idle >= len(column.steps) - self.steps]
        came_before = idle[0] >= COURSE_STEPS and len(idle) == len(column.steps) - idle[0]
        facts = window.facts
        return finding_of(
            window,
            WITHOUT_GRADIENTS if is_empty[recent].all() else BACKWARD_PASSES,
            "share of steps without new gradients",
            share,
            above=min(self.share, float(np.nextafter(share, -1))),
            since=int(column.steps[recent[0]]),
            worker=column.worker,
            series=column.series,
            statistics=EmptySteps(came_before).numbers(),
            place=facts.losses[0].backward_line if facts and facts.losses else "",
        )


def _without_any(window: Window) -> list[OptimizerFacts]:
    """Return the optimizers that never had a gradient, where another had some, once the run is long or has ended."""
    held = window.facts.optimizers if window.facts and (window.is_last or window.step >= LONG_STEPS) else ()
    empty = [optimizer for optimizer in held if NEVER_HAD_GRADIENT.of(optimizer)]
    return empty if len(empty) < len(held) else []


def _empty(window: Window, optimizer: OptimizerFacts) -> Finding:
    return finding_of(window, optimizer.name, EMPTY, 0.0, below=1.0, since=0, place=optimizer.line)


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
