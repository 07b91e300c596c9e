"""Functions of PyTorch that show a step: two global optimizer hooks, the backward pass, the building of optimizers.

Nothing else is touched for that. While the training rests, the hook after an optimizer's step is all that stays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.session import RunSession
from trackside.capture.steps.schedule import NOTHING_DUE
from trackside.frameworks.pytorch.compiling.tracing import compiler_at_work, is_dynamo_compiling, skip_frame, untraced
from trackside.frameworks.pytorch.steps.training_steps import TrainingSteps
from trackside.frameworks.shared.adapter import StepHook
from trackside.frameworks.shared.replaced_methods import ReplacedFunction
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, NOT_OURS, OPTIMIZER


def install_torch_calls(session: RunSession, steps: TrainingSteps) -> list[Callable[[], object]]:
    """Watch the functions that stay watched at rest, under the session's guard. Return the functions that undo it."""
    others = steps.other_optimizers
    others.before, others.after = _before_optimizer(session, steps), _after_optimizer(session, steps)
    _see_steps_by_hand(session, steps)
    return [
        register_optimizer_step_post_hook(others.after).remove,
        others.remove,
        _wrap_optimizer_init(session, steps),
    ]


def step_hooks(session: RunSession, steps: TrainingSteps) -> Iterator[StepHook]:
    """Return the hooks that each step meets. Call `install_torch_calls` first."""
    yield _BeforeOptimizer(steps.other_optimizers.before)
    yield ReplacedFunction(torch.autograd, "backward", functools.partial(_watched_backward, session, steps))


def loss_hook(session: RunSession, steps: TrainingSteps) -> StepHook:
    """Return the hook of steps at rest that save their losses."""
    return ReplacedFunction(torch.autograd, "backward", functools.partial(_backward_at_rest, session, steps))


class _BeforeOptimizer:
    """The global hook before an optimizer's step; see `StepHook`."""

    def __init__(self, hook: Callable[[Optimizer, Any, Any], Any]) -> None:
        self._hook = hook
        self._handle: Any = None

    def put_in(self) -> None:
        if self._handle is None:
            self._handle = register_optimizer_step_pre_hook(self._hook)

    def take_out(self) -> bool:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        return True


def _before_optimizer(
    session: RunSession, steps: TrainingSteps
) -> Callable[[Optimizer, Any, Any], tuple[Any, Any] | None]:
    before = session.guard.protect("capturing a step", steps.before_optimizer)
    while_compiling = untraced(before)
    clock, thread = steps.sources.timing.phases.clock, steps.thread

    def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if is_dynamo_compiling() or compiler_at_work() is not None:
            return while_compiling(optimizer, args, kwargs)
        if (get_ident() != thread.number or id(optimizer) != thread.newest) and thread.is_another(optimizer):
            return None
        if not clock.thread:  # nobody asks for the seconds of phases
            return before(optimizer, args, kwargs)
        clock.around_optimizer = clock.enter(CAPTURE)
        instead = before(optimizer, args, kwargs)
        clock.enter(OPTIMIZER)
        return instead

    skip_frame(before_step)
    return before_step


def _after_optimizer(session: RunSession, steps: TrainingSteps) -> Callable[[Optimizer, Any, Any], None]:
    guard, clock = session.guard, steps.sources.timing.phases.clock
    rest, resting = session.rest, steps.resting
    guarded = guard.protect("ending a step", steps.after_optimizer)
    end_rest = guard.protect("ending a rest", resting.end)
    ends_step = guard.protect("counting a step at rest", resting.ends_step)
    thread, tally = steps.thread, session.engine.tally

    def unless_down(*args: Any) -> None:
        guarded(*args)
        if guard.is_off and not steps.is_down:
            guard.attempt("standing down", steps.stand_down)

    while_compiling = untraced(unless_down)

    def after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        left = tally.left
        if left > 1 and id(optimizer) == tally.optimizer:  # all that a quick step at rest meets
            tally.left = left - 1
            return
        if rest.is_on:
            is_ours = get_ident() == thread.number or not thread.is_another(optimizer)
            if is_ours and (resting.is_plain or ends_step(optimizer)) and resting.passed():
                end_rest(optimizer)
            return
        if is_dynamo_compiling() or compiler_at_work() is not None:
            while_compiling(optimizer, args, kwargs)
            return
        if get_ident() != thread.number and thread.is_another(optimizer):
            return
        if not clock.thread:
            unless_down(optimizer, args, kwargs)
            if clock.steps:  # this was the first one
                clock.leave_optimizer()
            return
        clock.enter(CAPTURE)
        unless_down(optimizer, args, kwargs)
        clock.leave_optimizer()

    skip_frame(after_step)
    return after_step


def _watched_backward(session: RunSession, steps: TrainingSteps, original: Any) -> Any:
    see_loss = untraced(session.guard.protect("reading the loss", steps.backward_called))
    engine, validation, statistics = session.engine, steps.sources.validation, session.statistics
    numbers, cleared = steps.sources.gradient_numbers, steps.sources.gradient_numbers.cleared
    ended, unused = numbers.order.backward_ended, numbers.unused
    clock, thread = steps.sources.timing.phases.clock, steps.thread
    by_hand = steps.other_optimizers.by_hand
    may_step = untraced(session.guard.protect("capturing a step", by_hand.after_backward))

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        is_plain = not is_dynamo_compiling() and compiler_at_work() is None
        if is_plain and thread.is_another_pass():
            original(*args, **kwargs)
            return
        before = clock.enter(CAPTURE) if is_plain and clock.thread else NOT_OURS
        if statistics.is_on:
            unused.before_backward(*args[:1])
        if statistics.is_on or engine.due is not NOTHING_DUE or validation.is_watching:
            see_loss(*args, **kwargs)
        if cleared.is_waiting:
            numbers.before_backward()
        try:
            if before >= 0:
                clock.enter(BACKWARD)
            original(*args, **kwargs)
            if before >= 0:
                clock.enter(CAPTURE)
            if cleared.is_waiting:
                numbers.after_backward()
            if statistics.is_on:
                unused.after_backward()
            ended()
            if by_hand.is_on:
                may_step()
        finally:
            if before >= 0:
                clock.leave(before)

    skip_frame(backward)
    return backward


def _backward_at_rest(session: RunSession, steps: TrainingSteps, original: Any) -> Any:
    see_loss = untraced(session.guard.protect("reading the loss", steps.resting.backward_begins))
    thread = steps.thread

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        if not is_dynamo_compiling() and not thread.is_another_pass():
            see_loss(*args, **kwargs)
        original(*args, **kwargs)

    skip_frame(backward)
    return backward


def _see_steps_by_hand(session: RunSession, steps: TrainingSteps) -> None:
    """Handle steps by hand as those of optimizers, but for the clock: they have no phase of their own."""
    by_hand, is_another = steps.other_optimizers.by_hand, steps.thread.is_another

    def before(stand_in: Optimizer) -> None:
        if not is_another(stand_in):
            steps.before_optimizer(stand_in, (stand_in,), {})

    def after(stand_in: Optimizer) -> None:
        steps.after_optimizer(stand_in, (stand_in,), {})
        steps.other_optimizers.ended(stand_in)

    by_hand.before, by_hand.after = before, after


def _wrap_optimizer_init(session: RunSession, steps: TrainingSteps) -> Callable[[], None]:
    original = Optimizer.__init__
    created = untraced(session.guard.protect("meeting an optimizer", steps.optimizer_created))

    @functools.wraps(original)
    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it replaces one
        original(self, *args, **kwargs)
        created(self)

    skip_frame(__init__)
    setattr(Optimizer, "__init__", __init__)  # noqa: B010 - mypy forbids the plain assignment to a method
    return functools.partial(setattr, Optimizer, "__init__", original)
