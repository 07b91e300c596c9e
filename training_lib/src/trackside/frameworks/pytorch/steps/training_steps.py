"""A training step of PyTorch, in the order of events: losses, before the optimizer, after it, its end."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.values import Values
from trackside.capture.request_reading import is_being_spawned
from trackside.capture.session import RunSession
from trackside.capture.statistics.budget import SAVED
from trackside.capture.steps.schedule import NOTHING_DUE
from trackside.capture.steps.step_engine import TRAIN
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.live_objects import one_look
from trackside.frameworks.pytorch.optimizers.closures import closure_of, with_closure
from trackside.frameworks.pytorch.optimizers.nested_steps import WrappedSteps
from trackside.frameworks.pytorch.optimizers.other_kinds import OtherOptimizers
from trackside.frameworks.pytorch.steps.before_first_step import BeforeFirstStep
from trackside.frameworks.pytorch.steps.resting import Resting
from trackside.frameworks.pytorch.steps.sources import ExtraSource, PyTorchSources
from trackside.frameworks.pytorch.steps.strategy import MakeStrategy
from trackside.frameworks.pytorch.steps.training_thread import TrainingThread


class TrainingSteps:
    """The handlers of the events of a step. The strategy decides where one ends; the sources capture.

    Attributes:
        sources: The sources.
        resting: The rests between bursts of watched steps.
        before_first_step: The signs of training until the first step is made.
        other_optimizers: The optimizers that are none of PyTorch's.
        thread: The thread of the captured training.
        is_down: True once capture is switched off and has no noticeable cost.

    Args:
        session: The run.
        begin: Begins it; returns False if this process captures none.
        strategy: Makes the strategy that decides where a step ends.
        extra: Makes further sources.
        sees_start: True if the hooks are there before the script makes its models.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        begin: Callable[[], bool],
        strategy: MakeStrategy,
        extra: Sequence[ExtraSource] = (),
        sees_start: bool = False,
    ) -> None:
        self._session, self._begin = session, begin
        self._engine, self._guard, self._record = session.engine, session.guard, session.statistics
        self._closure_is_done = False
        self._passes_at_end = 0  # backward passes of the process as the newest step ended
        self._made_in_turn: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()  # with these passes
        self._wrapped = WrappedSteps()
        self.is_down = False
        self.before_first_step = BeforeFirstStep()
        self.other_optimizers = OtherOptimizers(
            self.optimizer_created,
            protect=Fuse(session.guard, "watching an optimizer that is none of PyTorch's").protect,
        )
        sources = self.sources = PyTorchSources(
            session, observer=self, strategy=strategy, extra=extra, sees_start=sees_start
        )
        decides = self._strategy = sources.strategy
        self._takes, self._counts, self._step_ends = decides.takes, decides.counts, decides.step_ends
        self._statistics, self._numbers = sources.statistics, sources.gradient_numbers
        self.thread = TrainingThread(lambda: session.engine.step, moved=self._numbers.forget)
        self._numbers.own_skips.found = sources.drop_unsettled
        self._update_size = sources.update_size
        self._validation, self._facts = sources.validation, sources.facts
        self._facts.may_read = self._numbers.unused.may_read = self.thread.may_read
        self.resting = Resting(session, sources, strategy=sources.strategy, others=self.other_optimizers)
        self.resting.passes_unused, self._numbers.unused.found = self.passes_unused, self.resting.passes_left_out
        self._record.logged.is_step_open = lambda: (
            session.rest.is_on or self._numbers.order.passes > self._passes_at_end
        )

    # What PyTorch shows.

    def optimizer_created(self, optimizer: Optimizer) -> None:
        """Handle a new optimizer."""
        self.resting.end()
        by_hand = self.other_optimizers.by_hand
        if not by_hand.is_made_by(optimizer):
            if by_hand.is_on:
                self._strategy.boundary.forget(by_hand.end())
            self.before_first_step.optimizer_created(optimizer)
        if not is_being_spawned():
            self.read_request()
        self._strategy.created(optimizer)
        self.sources.optimizer_created(optimizer)
        passes = self._numbers.order.passes
        if (
            self._session.has_begun
            and passes
            and passes == max(self._passes_at_end, self._numbers.order.at_newest_step)
        ):
            self._made_in_turn[optimizer] = passes
        if not self._session.has_begun:  # step 0 may save what is about to be computed
            self.look_ahead()

    def backward_called(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        """Handle a backward pass that begins, with the arguments of `torch.autograd.backward`."""
        if not self._strategy.loss_seen(tensors):
            return
        by_hand = self.other_optimizers.by_hand
        if by_hand.is_on:
            by_hand.before_backward()
        elif not self._session.has_begun:
            self.before_first_step.backward_called(tensors)
            if self.before_first_step.lacks_optimizer:
                self.other_optimizers.look()
            elif weights := self.before_first_step.changed_by_hand(tensors):
                self.other_optimizers.begin_by_hand(weights)
        self.read_request()
        if self._validation.is_watching:
            self._validation.training_goes_on()
        if grad_tensors is None and not self._closure_is_done:
            self.sources.losses.backward_called(tensors, is_saved=self._strategy.saves_seen_losses)

    def before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Handle the moment before an optimizer's step. Return the arguments it gets instead of its own, if any."""
        has_arguments = bool(kwargs) or len(args) > 1
        closure = closure_of(args, kwargs) if has_arguments else None
        if self._takes is not None and not self._takes(optimizer, has_closure=closure is not None):
            return None
        is_part = self._wrapped.before(optimizer, self._numbers.order.passes, has_closure=closure is not None)
        if is_part or (self._made_in_turn and self._is_of_ended_step(optimizer)):
            return None
        if self._session.last is not None:
            self._session.last.release()
        if not self._session.has_begun:
            with one_look():
                return self.before_optimizer(optimizer, args, kwargs) if self._begin() else None
        self._closure_is_done = self._validation.was_set_to_train = False
        self.sources.skipped_steps.has_stepped = self._numbers.unused.is_stepping = True
        if self._validation.is_watching:
            self._validation.training_goes_on()
        if self._strategy.ends_before(optimizer):
            self.end_step(keep_unsettled=True)
        if self._facts.is_looking:
            self._facts.before_step(optimizer)
        flag = self.sources.skipped_steps.flag(optimizer)
        if self._engine.due is NOTHING_DUE and not self._record.is_on:
            return None
        if closure is not None:
            self.resting.needs_passes = True
            return self._with_observed(closure, optimizer, args, kwargs)
        if self._record.is_on:
            self._numbers.before_step(optimizer, flag)
        self._copy(optimizer, is_skipped=flag or False)
        return None

    def after_optimizer(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        """Handle the moment after an optimizer's step."""
        is_part = self._wrapped.after(optimizer, self._numbers.order.passes)
        is_none = is_part or not self._session.has_begun
        if is_none or (self._counts is not None and not self._counts(optimizer)):
            return
        if self._made_in_turn and self._is_of_ended_step(optimizer):
            del self._made_in_turn[optimizer]
            return
        self._closure_is_done = False
        self._numbers.look_for_own_skip(optimizer, self._engine.mode)
        is_due, ends_by_calls = self._engine.due is not NOTHING_DUE, self._strategy.ends_by_calls
        if is_due:
            self._save_after(optimizer)
        if self._record.is_on:
            self._statistics.after_step(optimizer)
        if ends_by_calls:  # a training in the mode of a validation
            return
        if self._record.is_on:
            self._numbers.after_step(optimizer)
            if not self._numbers.is_skipped:
                self._update_size.after_step(optimizer)
        if self._strategy.ends_after(optimizer):
            was_seen = not self.resting.is_within_step
            self.end_step()
            if was_seen and not self._wrapped.are_known:
                self.resting.begin_after(optimizer)
            return
        self._record.settle(self._engine.mode)
        if is_due:
            self._engine.open_step.settle()
            for settle in self.sources.all.settle:
                settle(self._engine.mode)

    def _save_after(self, optimizer: Optimizer) -> None:
        started = self._record.budget.clock()
        for see in self.sources.all.after_optimizer:
            see(optimizer)
        self._record.budget.spend(SAVED, started)

    # What sources have seen: see `Observer`.

    def step_skipped(self, optimizer: Optimizer) -> None:
        """Drop the data that led to a step that AMP has skipped.

        The other optimizers of the step do not wait for it.
        """
        self.resting.end()
        self.passes_unused()
        if self._strategy.boundary.skipped(optimizer):
            self.end_step()

    def passes_unused(self) -> None:
        """Drop the data that led to no step, because a script or a scaler skipped it."""
        self.sources.drop_unsettled()
        if self._record.is_on:
            self._numbers.step_skipped(self._engine.mode)

    def facts_changed(self) -> None:
        """Look at the model facts again; see `Observer`."""
        self._facts.is_looking = True  # as the open step ends

    def validation_changed(self) -> None:
        """End the open training step if it has ended with the validation; see `Observer`."""
        is_training = self._validation.is_on and self._engine.mode == TRAIN
        if is_training and not self.is_down and self._strategy.boundary.ends_with_validation():
            self.end_step(keep_unsettled=True)
        self.look_ahead()

    def validation_step_ends(self, mode: str, *, is_past: bool = False) -> None:
        """Record the losses of the validation step; see `Observer`."""
        self._record.end_validation_step(self._engine, self._validation.losses)
        if is_past:
            return
        for end in self.sources.all.step_ended:
            end(mode, keep_unsettled=False)
        if self._step_ends is not None:
            self._step_ends(is_of_validation=True)

    # The end of a step.

    def end_step(self, *, keep_unsettled: bool = False) -> None:
        """End the open step. With `keep_unsettled`, data added since the last `settle` belong to the next step."""
        engine, sources = self._engine, self.sources.all
        due = engine.due
        self.resting.passes = self._numbers.order.passes - self._passes_at_end
        self._passes_at_end = self._numbers.order.passes
        for see in sources.step_ending:
            see()
        if self._step_ends is not None:
            self._step_ends()
        self._facts.end_step(engine.step)
        is_left_out = self.resting.is_within_step
        if is_left_out:
            self.resting.leave_out_step()
        elif self._record.is_on:
            self._numbers.end_step()
            self._statistics.end_step(engine, keep_unsettled=keep_unsettled)
        started = self._record.budget.clock()
        if due is not NOTHING_DUE:
            for end in sources.step_ended:
                end(engine.mode, keep_unsettled=keep_unsettled)
        engine.end_step(keep_unsettled=keep_unsettled, renamed=self.sources.numbering.renamed)
        if due is not NOTHING_DUE:
            self._record.budget.spend(SAVED, started)
        if engine.due is not due:
            self.look_ahead()
        for begin in sources.step_began:
            begin(engine.step)
        if is_left_out:
            self.resting.step_left_out()

    def look_ahead(self) -> None:
        """Observe the calls that the open step needs. Call it when a step or a validation begins or ends."""
        if not self.is_down:
            self.sources.look_ahead(sees_calls=self._strategy.needs_calls(self._engine.due))

    def finish(self) -> None:
        """End the open steps with the run. Nothing raises."""
        self._guard.attempt("ending a rest", self.resting.end)
        self._guard.attempt("ending the last step", self.other_optimizers.by_hand.before_backward)
        if not self._guard.is_off:
            self._guard.attempt("saving the last step of the evaluation", self._end_validation)
        if self._strategy.boundary.is_open and not self._guard.is_off:
            self._guard.attempt("saving the last step", self.end_step)
        if not self._guard.is_off:
            self._guard.attempt("looking at the last weights", self._statistics.last_look.at_all)
        self.sources.timing.windows.end()

    def stand_down(self) -> None:
        """Remove everything with a noticeable cost, once capture is switched off."""
        self.is_down = True
        self.sources.timing.windows.end()
        self.sources.stand_down()

    def _end_validation(self) -> None:
        self._validation.end()
        self.sources.evaluations.in_training_mode.training_goes_on()
        has_news = self._facts.is_looking and self._facts.has_news_of_program
        if has_news and not self._strategy.boundary.is_open:  # no step will end after it
            self._facts.end_step(max(0, self._engine.step - 1))

    def read_request(self) -> None:
        """Read a request that lies at an address, at the first sign that this process trains."""
        if self._session.request_reading.is_unread and torch.utils.data.get_worker_info() is None:
            self._session.read_request()
            self.sources.calls.eager.is_allowed = self._session.request.compiled == "eager_step"

    def _is_of_ended_step(self, optimizer: Optimizer) -> bool:
        """Return True for the first step of an optimizer made in a turn that has ended with a step.

        Pyro makes one for each parameter when it meets it, after others have stepped on the same backward pass.
        """
        return self._made_in_turn.get(optimizer) == self._numbers.order.passes

    def _copy(self, optimizer: Optimizer, *, is_skipped: bool | Values = False) -> None:
        """Copy the values right before an optimizer's step: those that this step's forward and backward passes used."""
        self._statistics.before_step(optimizer, is_skipped=is_skipped)
        if is_skipped is False:
            self._numbers.own_skips.before_step(optimizer, self._engine.mode)
        if self._engine.due is not NOTHING_DUE:
            started = self._record.budget.clock()
            for see in self.sources.all.before_optimizer:
                see(optimizer)
            self._record.budget.spend(SAVED, started)

    def _with_observed(
        self, closure: Callable[..., Any], optimizer: Optimizer, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        """Return the arguments of `step` with the closure wrapped.

        A closure runs forward and backward inside of `step`, perhaps many times: before it the gradients are the last
        step's. Its first call stands for the step.
        """
        copy = self._guard.protect("capturing a step", self._copy)

        @functools.wraps(closure, updated=())
        def observed(*closure_args: Any, **closure_kwargs: Any) -> Any:
            result = closure(*closure_args, **closure_kwargs)
            if not self._closure_is_done:
                self._closure_is_done = True
                copy(optimizer)
            return result

        return with_closure(observed, args, kwargs)
