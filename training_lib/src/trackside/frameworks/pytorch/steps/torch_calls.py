"""Functions of PyTorch that show a step: two global optimizer hooks, the backward pass, the building of optimizers.

Nothing else is touched for that, and on an idle step they return at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.schedule import NOTHING_DUE
from trackside.capture.session import RunSession
from trackside.frameworks.pytorch.compiling.tracing import compiler_at_work, is_dynamo_compiling, skip_frame, untraced
from trackside.frameworks.pytorch.steps.training_steps import TrainingSteps
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, NOT_OURS, OPTIMIZER


def install_torch_calls(session: RunSession, steps: TrainingSteps) -> list[Callable[[], None]]:
    """Watch the functions, under the session's guard. Return the functions that undo it."""
    others = steps.other_optimizers
    others.before, others.after = _before_optimizer(session, steps), _after_optimizer(session, steps)
    return [
        register_optimizer_step_pre_hook(others.before).remove,
        register_optimizer_step_post_hook(others.after).remove,
        others.remove,
        _wrap_backward(session, steps),
        _wrap_optimizer_init(session, steps),
    ]


def _before_optimizer(
    session: RunSession, steps: TrainingSteps
) -> Callable[[Optimizer, Any, Any], tuple[Any, Any] | None]:
    long_way = session.guard.protect("capturing a step", steps.before_optimizer)
    while_compiling = untraced(long_way)
    short_way, idle_way, clock = steps.short_way, steps.idle_way, steps.sources.timing.phases.clock

    def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if is_dynamo_compiling() or compiler_at_work() is not None:
            return while_compiling(optimizer, args, kwargs)
        if short_way.is_open and short_way.begin(optimizer, args, kwargs):
            return None
        if idle_way.steps_left and idle_way.begin(optimizer, args, kwargs):
            return None
        if not clock.thread:  # nobody asks for the seconds of phases
            return long_way(optimizer, args, kwargs)
        clock.around_optimizer = clock.enter(CAPTURE)
        instead = long_way(optimizer, args, kwargs)
        clock.enter(OPTIMIZER)
        return instead

    skip_frame(before_step)
    return before_step


def _after_optimizer(session: RunSession, steps: TrainingSteps) -> Callable[[Optimizer, Any, Any], None]:
    guard, clock = session.guard, steps.sources.timing.phases.clock
    short_way, idle_way = steps.short_way, steps.idle_way
    guarded = guard.protect("ending a step", steps.after_optimizer)

    def unless_down(*args: Any) -> None:
        guarded(*args)
        if guard.is_off and not steps.is_down:
            guard.attempt("standing down", steps.stand_down)

    while_compiling = untraced(unless_down)

    def after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if is_dynamo_compiling() or compiler_at_work() is not None:
            while_compiling(optimizer, args, kwargs)
            return
        if short_way.is_stepping and short_way.end(optimizer):
            return
        if idle_way.is_stepping and idle_way.end(optimizer):
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


def _wrap_backward(session: RunSession, steps: TrainingSteps) -> Callable[[], None]:
    original = torch.autograd.backward
    see_loss = untraced(session.guard.protect("reading the loss", steps.backward_called))
    engine, validation, statistics = session.engine, steps.sources.validation, session.statistics
    numbers, cleared = steps.sources.gradient_numbers, steps.sources.gradient_numbers.cleared
    ended = numbers.order.backward_ended
    short_way, clock = steps.short_way, steps.sources.timing.phases.clock

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        is_plain = not is_dynamo_compiling() and compiler_at_work() is None
        if is_plain and short_way.is_open and short_way.enter_backward(args, kwargs):
            has_ended = False
            try:
                original(*args, **kwargs)
                has_ended = True
            finally:
                short_way.leave_backward(has_ended=has_ended)
            return
        before = clock.enter(CAPTURE) if is_plain and clock.thread else NOT_OURS
        if statistics.is_on or engine.due is not NOTHING_DUE or validation.is_watching:
            see_loss(*args, **kwargs)
        if cleared.is_waiting:
            numbers.before_backward()
        if before < 0:
            original(*args, **kwargs)
        else:
            clock.enter(BACKWARD)
            try:
                original(*args, **kwargs)
            finally:
                clock.leave(before)
        if cleared.is_waiting:
            numbers.after_backward()
        ended()

    skip_frame(backward)
    torch.autograd.backward = backward
    return functools.partial(setattr, torch.autograd, "backward", original)


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
