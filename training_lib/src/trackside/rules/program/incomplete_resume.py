"""incomplete-resume: a process goes on with the weights of an earlier one, and without the rest of its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observations import STATE, STATE_LOST_EVERY
from trackside.contracts.run.recorded_names import BATCH, BATCH_NUMBER, EPOCH
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import FIRST, HARDLY_VISIBLE, LEARNS, NEARER_FIRST, NEWEST_LOSSES, NOISE, TRACE
from trackside.situation.losses.losses import training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median
from trackside.trial.window import Column, Window

_EMPTIED, _STATE, _RATES, _BATCHES = (
    "steps between losses of the state",
    "optimizers without their state",
    "learning rates as at the run's begin",
    "batches as at the run's begin",
)


@dataclass(frozen=True)
class IncompleteResume(NetworkRule):
    """A process resumed the weights of an earlier one, and not the rest of its state.

    Why it matters:
        A job that is interrupted goes on from a checkpoint. Often the checkpoint holds the model alone: then Adam's
        moments and momentum are gone, the schedule warms up once more, and the data begin again with their first
        batches. Nothing is raised. The loss jumps and comes back, and the run is another one than without the
        interruption.

    How it decides:
        The hook notes the step at which a process goes on with a run, and whether each optimizer had a state before its
        first step in the process. Let b be that step, and n the norms of the weights.

        1. The process resumes weights: the sum of |n at b - n before b| is below 0.7 x the sum of |n at b - n of the
           run's first step|, or the same holds of a training loss at b, which no step of the process has changed yet,
           with the medians of the 20 losses before b and of the run's first three. A model that begins anew is near
           the run's first weights and losses.
        2. It fires for each optimizer that keeps a state, had one in the process before, and had none before its first
           step in this one. That is a warning.
        3. A remark is given where the learning rates of `steps` steps since b are those of the run's first steps,
           though the rate before b was another, and where the `steps` first batches of a DataLoader are those of the
           run's first steps in the same order, though the process before was in the middle of its pass over the data.
        4. It also fires within one process for each optimizer whose state was emptied three times at least, the last
           two no more than `memory` steps apart: moments that are averaged over tens of steps never come to be. One
           that is made anew for the same parameters and data counts as emptied. A state that is emptied at the begin of
           each phase of hundreds of steps is silent, and so are one that is replaced by `load_state_dict`, and
           parameters that are given back or averaged between two optimizers.

        Training that begins anew in the same run is silent, and so are optimizers without a state (SGD without
        momentum). Where the weights have hardly moved, nothing distinguishes a checkpoint from the first weights: then
        it is silent as well.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.incomplete_resume import begins_again

        warm_up = np.array([0.1, 0.2, 0.3, 0.4])
        assert begins_again(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.5]), warm_up, steps=4)
        assert not begins_again(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.5]), np.array([0.5, 0.4, 0.4, 0.3]), steps=4)
        ```

    References:
        - PyTorch, "Saving and loading a general checkpoint": the optimizer's state belongs to a checkpoint.
        - TrainCheck (OSDI 2025): errors of resumed trainings.
    """

    rule_id = "incomplete-resume"
    code = "TS216"
    watches = ("losses", "weights")
    since = "0.1"
    likely_causes = (Cause.INCOMPLETE_RESUME,)
    shows_its_cause = True
    what_to_do = (
        "Save optimizer.state_dict() and scheduler.state_dict() with the model, and load them before the first step.",
        "Save the position in the data: the epoch for the sampler's set_epoch, and the batches to leave out.",
        "Make the optimizer once, before the loop over the epochs.",
    )

    steps: int = parameter(10, "steps since the process began whose learning rates or batches are compared", minimum=2)

    memory: int = parameter(40, "steps between two losses of a state, up to which it never comes to be", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per lost state, learning rate or order of batches: lost states first."""
        resumed = _resumed(window)
        if resumed is None:
            return list(self._emptied(window))
        return [
            *self._emptied(window),
            *self._lost_states(window, *resumed),
            *self._begun_again(window, began=resumed[1].program.resumed_at),
        ]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a run of one process that keeps its states."""
        is_lost = any(STATE_LOST_EVERY.of(each) for each in facts.optimizers)
        return "" if facts.program.resumed_at or is_lost else "no process has gone on with this run after another"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what began anew, and at which step."""
        lead = findings[0]
        if lead.measure == _EMPTIED:
            often = f"every {lead.observed:.0f} steps or so"
            return f"The state of {lead.subject} is lost {often}: it is emptied, or the optimizer is made anew."
        what = {
            _STATE: f"without the state of {lead.subject}",
            _RATES: "with the learning rates of the run's first steps",
        }.get(lead.measure, "with the batches of the run's first steps")
        return f"The process that resumed this run at step {lead.since_step} has the model's weights, but began {what}."

    def _emptied(self, window: Window) -> Iterator[Finding]:
        for optimizer in window.facts.optimizers if window.facts else ():
            if 0 < STATE_LOST_EVERY.of(optimizer) <= self.memory:
                yield finding_of(
                    window,
                    optimizer.name,
                    _EMPTIED,
                    float(STATE_LOST_EVERY.of(optimizer)),
                    below=float(self.memory + 1),
                    since=0,
                    place=optimizer.line,
                    grade=Severity.WARNING,
                )

    def _lost_states(self, window: Window, before: ModelFacts, now: ModelFacts) -> Iterator[Finding]:
        for optimizer in now.optimizers:
            old = before.optimizer(optimizer.name)
            if (
                STATE.of(optimizer) == "new"
                and old is not None
                and STATE.of(old)
                and old.type_name == optimizer.type_name
            ):
                yield finding_of(
                    window,
                    optimizer.name,
                    _STATE,
                    1.0,
                    above=0.0,
                    since=now.program.resumed_at,
                    place=optimizer.line,
                    grade=Severity.WARNING,
                )

    def _begun_again(self, window: Window, *, began: int) -> Iterator[Finding]:
        jumped = [column for column in Evidence(window).learning_rates if _jumps(*_split(column, began))]
        fingerprints = window.statistic(BATCH, "mean", mode=None)
        unread = [column for column in fingerprints if _was_in_a_pass(window, column.worker, began)]
        for column, measure in (*((c, _RATES) for c in jumped), *((c, _BATCHES) for c in unread)):
            if begins_again(*_split(column, began), steps=self.steps):
                steps, remark = float(self.steps), Severity.INFO
                yield finding_of(window, column, measure, steps, above=0.0, since=began, series=(), grade=remark)


def begins_again(before: NDArray[np.float64], after: NDArray[np.float64], *, steps: int) -> bool:
    """Return True if the first values of two processes are the same, and not all equal.

    Args:
        before: The values of the earlier process, oldest first, shape (n,).
        after: The values of the later process, oldest first, shape (m,).
        steps: Number of values to compare.
    """
    if min(len(before), len(after)) < steps:
        return False
    return bool(np.ptp(before[:steps]) > 0 and np.allclose(before[:steps], after[:steps], rtol=NOISE, atol=0))


def _resumed(window: Window) -> tuple[ModelFacts, ModelFacts] | None:
    """Return the facts before and after the process that resumed the run's weights; None if no process has."""
    facts = window.facts
    if facts is None or not (began := facts.program.resumed_at):
        return None
    before, now = window.source.facts_at(began - 1), window.source.facts_at(began)
    if before is None or now is None or before.from_step >= began or now.program.resumed_at != began:
        return None
    return (before, now) if _resumes_weights(window, began) or _resumes_losses(window, began) else None


def _resumes_weights(window: Window, began: int) -> bool:
    """Return True if the weights at the step are nearer to the last ones before it than to the run's first ones."""
    columns = window.columns("weights", "l2", mode=None)
    norms = [
        (c.values[0], before[-1], after[0])
        for c in columns
        for before, after in [_split(c, began)]
        if _both(before, after)
    ]
    if not norms:
        return False
    first, last, now = np.array(norms).T
    has_moved = float(np.abs(last - first).sum()) > HARDLY_VISIBLE * float(np.abs(last).sum())
    return has_moved and float(np.abs(now - last).sum()) < NEARER_FIRST * float(np.abs(now - first).sum())


def _resumes_losses(window: Window, began: int) -> bool:
    """Return True if a loss at the step is much nearer to those before it than to the run's first ones."""
    for column in training_losses(window):
        before, after = _split(column, began)
        if not _both(before, after):
            continue
        first, last, now = median(before[:FIRST]), median(before[-NEWEST_LOSSES:]), float(after[0])
        if abs(last - first) > LEARNS * abs(first) and abs(now - last) < NEARER_FIRST * abs(now - first):
            return True
    return False


def _both(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    return bool(len(before) and len(after) and np.isfinite([before[0], before[-1], after[0]]).all())


def _jumps(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    return bool(len(before) and len(after) and abs(after[0] - before[-1]) > TRACE * before.max())


def _was_in_a_pass(window: Window, worker: str, began: int) -> bool:
    """Return True if the process before ended with batches left in its pass over the data."""
    numbers, epochs = (
        next((c for c in window.statistic(name, "mean", mode=None) if c.worker == worker), None)
        for name in (BATCH_NUMBER, EPOCH)
    )
    if numbers is None or epochs is None or not epochs.values.max() > 0:  # no pass has ended: its length is unknown
        return False
    before = _split(numbers, began)[0]
    return bool(len(before) and before[-1] < numbers.values.max())


def _split(column: Column, step: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values before a step, and those from it on."""
    place = int(np.searchsorted(column.steps, step))
    return column.values[:place], column.values[place:]
