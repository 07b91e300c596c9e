"""The ways of a PyTorch training into a rest and out of it; `capture/statistics/rest.py` decides when.

At rest one global hook after an optimizer's step counts, and nothing else of ours is met by a step, but a small
backward pass where each step saves its losses. What a script calls
once in a while stays: the making of optimizers, `train()` and `eval()`, the start of a pass over a DataLoader, blocks
that switch gradients off (no optimizer's own step passes there), `GradScaler.step`, functions that load and store
states. Where one of these shows something that is to be seen, it ends the rest within a step. That step's beginning was
not seen, so nothing of it is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch.optim.optimizer import Optimizer

from trackside.capture.session import RunSession
from trackside.capture.steps.step_engine import TRAIN
from trackside.frameworks.pytorch.optimizers.nested_steps import is_within_own_step, nests
from trackside.frameworks.pytorch.optimizers.other_kinds import OtherOptimizers
from trackside.frameworks.pytorch.steps.sources import PyTorchSources
from trackside.frameworks.pytorch.steps.strategy import StepStrategy
from trackside.frameworks.shared.replaced_methods import StepHooks

_MOST_SURPLUS = 3  # a training with more such steps is watched


class Resting:
    """The rests of one adapter.

    Attributes:
        hooks: What each step meets; empty until the adapter is installed.
        loss_hook: What a step at rest meets that saves its losses.
        passes: Number of backward passes of the newest watched step.
        needs_passes: True once the losses of a step were known by all passes alone: some led to no step, or a function
            that an optimizer is given computes the loss, perhaps many times.
        passes_unused: Drops the data that led to no step.
        is_plain: True if each step of an optimizer at rest ends a step, and `ends_step` need not be asked.
        is_within_step: True while the open step is one whose beginning was not seen.
        is_alone: True if no other process trains with this one, whose steps would have to be the same.

    Args:
        session: The run.
        sources: Its sources.
        strategy: Decides where a step ends.
        others: The optimizers that are none of PyTorch's.
    """

    def __init__(
        self, session: RunSession, sources: PyTorchSources, *, strategy: StepStrategy, others: OtherOptimizers
    ) -> None:
        self._session, self._sources, self._strategy, self._others = session, sources, strategy, others
        self._rest, self._engine, self._record = session.rest, session.engine, session.statistics
        self._hand_on_losses = session.guard.protect("ending a step", session.engine.hand_on_losses)
        self._clock, self._windows = sources.timing.phases.clock, sources.timing.windows
        self._windows.opened = self._rest.end_soon
        sources.batches.pass_begins = self.pass_begins
        sources.calls.eager.used = sources.validation.begins = self.end
        self.hooks = self.loss_hook = StepHooks(())
        self.is_within_step = self._is_forbidden = self.needs_passes = self._saves_losses = False
        self.passes_unused: Callable[[], None] = lambda: None
        self.passes = self._passes_here = 0
        self._surplus = 0  # rests that ended as a step had more passes than the newest watched one
        self.is_plain = self.is_alone = True

    def begin_after(self, optimizer: Optimizer) -> None:
        """Begin a rest after a step of this optimizer that has ended, if it is time to."""
        if not self._rest.begin(at_most=self._at_most()):
            return
        with self._rest.beginning():
            self._saves_losses = self._engine.saves_losses_alone
            self.is_plain = self._strategy.boundary.has_one and not nests(optimizer)
            self._engine.tally.optimizer = id(optimizer) if self.is_plain and not self._saves_losses else 0
            self._is_forbidden = not self.hooks.take_out()
            if self._saves_losses:
                self._passes_here = 0
                self.loss_hook.put_in()
            self._clock.stop()
        if self._is_forbidden:  # another library has built upon one, which is still at work
            self.end(optimizer)

    def ends_step(self, optimizer: Optimizer) -> bool:
        """Return True if the open step, at rest, ends with this one of an optimizer, which has been made."""
        if is_within_own_step(optimizer):
            return False
        self._sources.skipped_steps.has_stepped = True
        is_over = self._strategy.ends_before(optimizer) and self._rest.passed()  # this is the first to tell of it
        if self._strategy.ends_after(optimizer):
            return True
        if is_over:
            self.end()
        return False

    def backward_begins(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        """Save the losses of a step at rest, with the arguments of `torch.autograd.backward`."""
        if not self._rest.is_on or grad_tensors is not None or self._engine.mode != TRAIN:
            return
        self._passes_here += 1
        if self._passes_here > self.passes:  # some of them may lead to no step
            self._surplus += 1
            self.end()
        self._sources.losses.seen_at_rest(tensors)

    def passes_left_out(self) -> None:
        """Drop the data of passes that led to no step, because the script makes none now and then."""
        self.needs_passes = True
        self.passes_unused()

    def passed(self) -> bool:
        """Count a step at rest that has ended. Return True if the rest is over with it."""
        if self._saves_losses:
            self._passes_here = 0
            self._hand_on_losses()
        return self._rest.passed()

    def end(self, optimizer: Optimizer | None = None) -> None:
        """End the rest, if the training is at rest.

        Args:
            optimizer: The optimizer that has just ended a step; None within a step.
        """
        with self._rest.ending() as rested:
            if rested is None:
                return
            if self._saves_losses and not self.loss_hook.take_out():
                self._is_forbidden = True
            if not self._session.guard.is_off:
                # Of several optimizers one is known here: a whole step shows what all of them begin with.
                self._watch_again(rested, optimizer if self._strategy.boundary.has_one or not rested else None)
        self._begin_step(rested)

    def pass_begins(self) -> bool:
        """End a rest that has lasted long before a pass over the data. Return True if the training is watched."""
        if self._rest.is_on and self._rest.is_half_over:
            self.end()
        return not self._rest.is_on

    def leave_out_step(self) -> None:
        """Record nothing of a step that was not seen from its beginning, right before it ends."""
        self._sources.gradient_numbers.leave_out()

    def step_left_out(self) -> None:
        """Begin with the step after such a one, right after its end."""
        self.is_within_step = False
        self._rest.leave_out(1)
        self._begin_step(1)

    def _watch_again(self, rested: int, optimizer: Optimizer | None) -> None:
        self.hooks.put_in()
        sources = self._sources
        for see in sources.all.rest_ended:
            see(rested)
        self.is_within_step = optimizer is None
        if self._record.is_on:
            sources.update_size.rest_ended()
            if optimizer is not None:
                sources.gradient_numbers.begin_after(optimizer)
            elif not self._strategy.boundary.has_one:
                sources.gradient_numbers.cleared.forget()
        for begin in sources.all.step_began:
            begin(self._engine.step)

    def _begin_step(self, unwatched: int) -> None:
        if self._clock.thread:
            self._clock.restart(unwatched)
        if self._record.meter.is_on:
            self._record.meter.leave()

    def _at_most(self) -> int:
        """Return the number of steps that may be at rest from the open one on."""
        session, sources = self._session, self._sources
        if self._is_forbidden or not self.is_alone or not self._strategy.may_rest or session.last is not None:
            return 0
        if self._engine.mode != TRAIN or sources.validation.is_watching or sources.validation.needs_calls():
            return 0
        if sources.calls.eager.is_compiler_used or sources.skipped_steps.has_fused or self._others.are_met:
            return 0
        until = self._windows.watched_from  # a look at the graph that is due waits for the next burst
        steps = self._engine.steps_to_count(with_losses=self._may_save_losses())
        return steps if until == math.inf else min(steps, int(until) - self._engine.step)

    def _may_save_losses(self) -> bool:
        """Return True if the losses of steps at rest can be saved as those of watched ones."""
        is_one = self._strategy.boundary.has_one and not self.needs_passes
        return is_one and self._strategy.saves_seen_losses and self._surplus < _MOST_SURPLUS
