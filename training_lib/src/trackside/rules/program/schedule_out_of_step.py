"""schedule-out-of-step: the learning-rate schedule is stepped too often, too seldom or never."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts
from trackside.contracts.observations import SCHEDULE
from trackside.contracts.run.recorded_names import EPOCH
from trackside.contracts.verdict import Finding
from trackside.rules.details import Details
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import (
    ENOUGH_STEPS,
    FEWEST,
    FEWEST_CHANGES,
    LONGEST_WARM_UP,
    MOST,
    SEVERAL,
    SHORT_STRETCH,
    VISIBLE,
)
from trackside.trial.window import Column, Window

SWINGS, TOO_OFTEN, NEVER, TOO_SELDOM, SQUARE = (
    "swings of the rate in one pass over the data",
    "places by which the schedule moves on at a time",
    "steps of the schedule",
    "turns of the warm-up",
    "highest rate, which is the square of the optimizer's",
)
_OF_FACTORS = frozenset({"LambdaLR", "MultiplicativeLR"})


@dataclass(frozen=True)
class Rate(Details):
    """Details of a finding.

    share  newest rate over the highest that the schedule names
    """

    share: float = 1.0


@dataclass(frozen=True)
class ScheduleOutOfStep(PyTorchRule):
    """The learning-rate schedule is stepped too often, too seldom or never.

    Why it matters:
        A schedule counts its own steps, and knows neither batches nor epochs. Stepped in both loops, or by two parts of
        a program, it runs through its course in a fraction of the training: a cosine swings up and down, a decay ends
        early. Stepped once per epoch where it counts batches, or never, a warm-up keeps the rate near zero to the end.
        Nothing is raised, and the loss falls all the same, only not as far.

    How it decides:
        With the hook's facts about the newest schedule of each optimizer (its class, the highest rate that it names,
        and its steps), and the rate of the first parameter group at each step:

        1. *Too often*: the schedule moves on by two places or more without a backward pass between, three times at
           least, and in five of six turns in which it moves. It does not count up to the number of processes, for some
           libraries step a schedule once for each of them.
        2. *Never*: the script has never stepped it, the rate has been one and the same at all steps and is below half
           of the highest one (the schedule begins with a warm-up or a cycle), through two passes over the data, three
           evaluations, or `steps` steps.
        3. *Too seldom*: the rate rises since the first step and is below half of the highest one. It changed six times
           at least, not more often than at each fifth step, and at this pace would need more than 25 changes in all to
           reach the highest: warm-ups of so many epochs are not made, and those of so many batches are.

        4. *In a fraction of a pass*: a schedule that is made to fall once (CosineAnnealingLR) falls and rises again
           within one pass over the data, and the training goes on for three passes.

        5. *A rate for a factor*: a schedule that multiplies (LambdaLR) gives rates, so that the highest rate so far is
           the square of the optimizer's, and it has not been passed for 30 measured steps.

        A schedule that holds the highest rate from the start does little harm while it waits, and is silent. So are
        schedules of other libraries, and those that follow a measure.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.schedule_out_of_step import turns_of_warm_up

        by_epoch = np.repeat(0.1 * np.arange(1, 9) / 40, 50)  # 40 batches of warm-up, stepped once per 50 batches
        assert round(turns_of_warm_up(by_epoch, highest=0.1)) == 39

        by_batch = 0.1 * np.arange(1, 20) / 40
        assert turns_of_warm_up(by_batch, highest=0.1) is None
        ```

    References:
        - PyTorch, "How to adjust learning rate": which schedulers are stepped after each epoch, and which after
          each batch.
        - huggingface/transformers issue 33455: a schedule that was stepped too often.
    """

    rule_id = "schedule-out-of-step"
    code = "TS220"
    watches = ("hyperparameters", "losses")
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_SCHEDULE,)
    shows_its_cause = True
    what_to_do = (
        "Call scheduler.step() at one place: once per batch or once per epoch, as its numbers count.",
        "Let the function of LambdaLR return a factor, 1 for the optimizer's own rate.",
        "Print the learning rate of each epoch before a long run.",
    )

    steps: int = parameter(500, "steps after which a schedule should have been stepped, without any epoch", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per optimizer with a schedule that is out of step."""
        facts = window.facts
        if facts is None:
            return []
        return [found for each in facts.optimizers for found in self._judge(window, facts, each)]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a program without a schedule."""
        return "" if any(SCHEDULE.of(each) for each in facts.optimizers) else "no schedule of PyTorch is used"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what is wrong with the pace."""
        lead = findings[0]
        return {
            SWINGS: f"The schedule of {lead.subject} is to fall once, and falls and rises {lead.observed:.1f} times in "
            "each pass over the data: it counts epochs and is stepped once per batch.",
            TOO_OFTEN: f"The schedule of {lead.subject} moves on by {lead.observed:.0f} places each time that it is "
            "stepped, and ends long before the training.",
            NEVER: f"The schedule of {lead.subject} was never stepped: the learning rate stays at its first value, "
            f"{Rate.of(lead).share:.0%} of the highest.",
            SQUARE: f"The schedule of {lead.subject} multiplies the optimizer's rate by a rate, {lead.threshold:.2g}: "
            f"the highest one is {lead.observed:.2g}.",
        }.get(
            lead.measure,
            f"The learning rate of {lead.subject} changes so seldom that its warm-up would take {lead.observed:.0f} "
            "epochs: the schedule is stepped once per epoch and counts batches.",
        )

    def _judge(self, window: Window, facts: ModelFacts, optimizer: OptimizerFacts) -> Iterator[Finding]:
        schedule = SCHEDULE.of(optimizer)
        if schedule is None:
            return
        if schedule.calls > max(1, facts.program.world_size):
            yield self._finding(window, optimizer, TOO_OFTEN, float(schedule.calls), threshold=1.0)
            return
        for column in window.statistic(f"hyperparameters/{optimizer.name}/group_0/lr", "mean", mode=None):
            if schedule.type_name in _OF_FACTORS and is_of_squares(column.values, highest=schedule.highest):
                highest, share = float(column.values.max()), float(column.values.max() / schedule.highest)
                yield self._finding(window, optimizer, SQUARE, highest, threshold=schedule.highest, share=share)
                return
            swings = self._swings(window, column, schedule.length)
            if swings >= 1:
                yield self._finding(window, optimizer, SWINGS, swings, threshold=1.0)
                return
            share = float(column.values[-1]) / schedule.highest if schedule.highest > 0 else 1.0
            if not share < MOST:
                continue
            if not schedule.calls and not np.ptp(column.values) and self._should_have_come(window, column):
                yield self._finding(window, optimizer, NEVER, 0.0, threshold=1.0, share=share)
            turns = turns_of_warm_up(column.values, highest=schedule.highest)
            if turns is not None and turns > LONGEST_WARM_UP:
                yield self._finding(window, optimizer, TOO_SELDOM, turns, threshold=LONGEST_WARM_UP, share=share)

    def _swings(self, window: Window, rates: Column, length: int) -> float:
        """Return how often the rate falls and rises in a pass over the data; 0 if it is not stepped within passes."""
        passes = next((c for c in window.statistic(EPOCH, "mean", mode=None) if c.worker == rates.worker), None)
        if not length or passes is None or passes.values[-1] < SEVERAL:
            return 0.0
        steps_of_a_pass = float((passes.steps[-1] - passes.steps[0]) / (passes.values[-1] - passes.values[0]))
        number = passes.values[np.maximum(0, np.searchsorted(passes.steps, rates.steps, side="right") - 1)]
        changes = np.diff(rates.values)[np.diff(number) == 0]
        is_by_batch = np.count_nonzero(changes) > MOST * len(changes)
        return steps_of_a_pass / (2 * length) if is_by_batch and (changes > 0).any() and (changes < 0).any() else 0.0

    def _should_have_come(self, window: Window, column: Column) -> bool:
        passes = window.statistic(EPOCH, "mean", mode=None)
        if (
            any(each.values.max() >= SEVERAL for each in passes)
            or window.rests(column.worker).places(column.steps)[-1] + 1 >= self.steps
        ):
            return True
        evaluated = window.columns("losses", "mean", mode="EVAL")
        return any(len(np.unique(np.searchsorted(column.steps, each.steps))) >= FEWEST for each in evaluated)

    def _finding(
        self,
        window: Window,
        optimizer: OptimizerFacts,
        measure: str,
        observed: float,
        *,
        threshold: float,
        share: float = 1.0,
    ) -> Finding:
        return Finding(
            subject=optimizer.name,
            step=window.step,
            since_step=0,
            measure=measure,
            observed=observed,
            relation="<" if measure in {NEVER, SQUARE} else ">",
            threshold=threshold,
            statistics=Rate(share).numbers(),
            place=optimizer.line,
        )


def turns_of_warm_up(rates: NDArray[np.float64], *, highest: float) -> float | None:
    """Return the changes that a rising rate needs to reach the highest one, at its pace so far.

    Args:
        rates: The rate at each step, oldest first, shape (n,).
        highest: The rate to reach.

    Returns:
        The number; None if the rate changed too few times or too often to be stepped per epoch, or fell.
    """
    changes = np.diff(rates)
    count = int(np.count_nonzero(changes))
    if count < FEWEST_CHANGES or SHORT_STRETCH * count > len(rates) or (changes < 0).any():
        return None
    return count * float((highest - rates[0]) / (rates[-1] - rates[0]))


def is_of_squares(rates: NDArray[np.float64], *, highest: float) -> bool:
    """Return True if the highest of these rates is the square of the optimizer's, and stays so.

    Args:
        rates: The rate at each step, oldest first, shape (n,).
        highest: The optimizer's own.
    """
    place = int(np.argmax(rates))
    is_square = 0 < highest < MOST and abs(float(rates[place]) / highest**2 - 1) < VISIBLE
    return bool(is_square and len(rates) - place > ENOUGH_STEPS)
