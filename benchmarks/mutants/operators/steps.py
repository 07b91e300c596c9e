"""Mistakes in gradients, optimizers, schedules, precision and resumed trainings."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.optim.optimizer import Optimizer

from benchmarks.mutants.operator import operator
from benchmarks.mutants.seams import Seams, parameters_of
from trackside.contracts.cause import Cause

BEFORE_STEP = "before the step of any optimizer"
AFTER_STEP = "after the step of any optimizer"
NO_STEP = "optimizers that are not PyTorch's, and weights that are changed by hand"
CLOSURES = "loops that hand the backward pass to the step as a closure (Lightning)"
BUILDING = "`Optimizer.__init__`: groups and defaults"
ADAM = "Adam and its kin, which divide by the gradient's size"
SCHEDULES = "schedules of `torch.optim.lr_scheduler`"


def _gradients(optimizer: Optimizer) -> list[Tensor]:
    return [each.grad for each in parameters_of(optimizer) if each.grad is not None and not each.grad.is_sparse]


@operator(
    "gradients",
    Cause.MISSING_ZERO_GRAD,
    seam="`Optimizer.zero_grad` and `Module.zero_grad`",
    unreached="programs that set `grad` to None themselves",
    is_silent=True,
)
def gradients_kept(seams: Seams) -> None:
    """Gradients are never cleared (stackoverflow-60335387)."""

    def keep(_original: Any, *_args: Any, **_kwargs: Any) -> None:
        seams.touch()

    for owner in (Optimizer, nn.Module):
        seams.wrap(owner, "zero_grad", keep)


@operator("gradients", Cause.STEP_ORDER, seam=BEFORE_STEP, unreached=f"{NO_STEP}; {CLOSURES}")
def gradients_cleared_late(seams: Seams) -> None:
    """Gradients are cleared between the backward pass and the step."""
    seams.before_step(lambda optimizer: optimizer.zero_grad())


@operator(
    "gradients",
    Cause.LEARNING_RATE_TOO_HIGH,
    Cause.EXPLODING_GRADIENTS,
    seam=BEFORE_STEP,
    unreached=f"{NO_STEP}; {CLOSURES}; {ADAM}",
)
def gradients_not_divided(seams: Seams) -> None:
    """Gradients are 16 times too large, as from 16 accumulated batches that nobody divides."""
    seams.before_step(lambda optimizer: [each.mul_(16) for each in _gradients(optimizer)])


@operator("gradients", Cause.CLIPPING_TOO_LOW, seam=BEFORE_STEP, unreached=f"{NO_STEP}; {CLOSURES}; {ADAM}")
def gradients_clipped_away(seams: Seams) -> None:
    """Gradients are clipped to a norm of 0.0001."""
    seams.before_step(lambda optimizer: nn.utils.clip_grad_norm_(parameters_of(optimizer), 1e-4))


@operator("gradients", Cause.CLIPPING_TOO_LOW, seam=BEFORE_STEP, unreached=f"{NO_STEP}; {CLOSURES}; {ADAM}")
def values_clipped_away(seams: Seams) -> None:
    """Each element of the gradients is clipped to 0.00001."""
    seams.before_step(lambda optimizer: nn.utils.clip_grad_value_(parameters_of(optimizer), 1e-5))


def _scale(name: str, factor: float) -> Any:
    """Return a change of a setting in groups and defaults."""

    def change(groups: list[dict[str, Any]], defaults: dict[str, Any]) -> None:
        for each in (*groups, defaults):
            if isinstance(each.get(name), int | float):
                each[name] *= factor

    return change


@operator(
    "optimizer",
    Cause.LEARNING_RATE_TOO_HIGH,
    seam=BUILDING,
    unreached="schedules that set the rate themselves (OneCycleLR)",
)
def rate_100_times_too_high(seams: Seams) -> None:
    """The learning rate is 100 times too high."""
    seams.at_building(_scale("lr", 100))


@operator(
    "optimizer",
    Cause.LEARNING_RATE_TOO_LOW,
    seam=BUILDING,
    unreached="schedules that set the rate themselves (OneCycleLR)",
)
def rate_1000_times_too_low(seams: Seams) -> None:
    """The learning rate is 1,000 times too low."""
    seams.at_building(_scale("lr", 1e-3))


@operator("optimizer", Cause.WEIGHT_DECAY_TOO_STRONG, seam=BUILDING, unreached="optimizers without weight decay")
def decay_too_strong(seams: Seams) -> None:
    """Weight decay takes a tenth of each weight at each step, or with Adam outweighs the gradient."""

    def change(groups: list[dict[str, Any]], defaults: dict[str, Any]) -> None:
        for each in (*groups, defaults):
            rate = each.get("lr", defaults.get("lr"))
            if "weight_decay" in defaults and isinstance(rate, int | float) and rate > 0:
                each["weight_decay"] = 0.1 / rate

    seams.at_building(change)


@operator("optimizer", seam=BUILDING, unreached="optimizers without momentum or betas")
def momentum_too_high(seams: Seams) -> None:
    """Momentum is 0.999, which adds up a thousand steps."""

    def change(groups: list[dict[str, Any]], defaults: dict[str, Any]) -> None:
        for each in (*groups, defaults):
            if "momentum" in each:
                each["momentum"] = 0.999
            if "betas" in each:
                each["betas"] = (0.999, *each["betas"][1:])

    seams.at_building(change)


@operator("optimizer", Cause.LEARNING_RATE_TOO_LOW, seam=f"{BUILDING}: `eps`", unreached="optimizers without `eps`")
def epsilon_too_large(seams: Seams) -> None:
    """Adam's epsilon is 10, so that steps are as small as the gradients."""

    def change(groups: list[dict[str, Any]], defaults: dict[str, Any]) -> None:
        for each in (*groups, defaults):
            if "eps" in each:
                each["eps"] = 10.0

    seams.at_building(change)


def _half(params: list[Any]) -> int:
    return max(1, len(params) // 2)


@operator(
    "optimizer", Cause.PARAMETERS_NOT_IN_OPTIMIZER, seam=f"{BUILDING}: `params`", unreached="models with one parameter"
)
def layers_left_out(seams: Seams) -> None:
    """The optimizer is not given the first half of each group's parameters."""

    def change(groups: list[dict[str, Any]], _defaults: dict[str, Any]) -> None:
        for group in groups:
            if len(group["params"]) > 1:
                group["params"] = group["params"][_half(group["params"]) :]

    seams.at_building(change)


@operator(
    "optimizer",
    Cause.PARAMETERS_NOT_IN_OPTIMIZER,
    seam=f"{BUILDING}: `params`",
    unreached="optimizers that read the model instead of their parameters",
    is_silent=True,
)
def built_before_replacement(seams: Seams) -> None:
    """The optimizer was built before the parameters were replaced: it steps on copies (AC-2665)."""

    def change(groups: list[dict[str, Any]], _defaults: dict[str, Any]) -> None:
        for group in groups:
            group["params"] = [nn.Parameter(each.detach().clone(), each.requires_grad) for each in group["params"]]

    seams.at_building(change)


@operator("optimizer", Cause.LEARNING_RATE_TOO_HIGH, seam=BEFORE_STEP, unreached=f"{NO_STEP}; {CLOSURES}; {ADAM}")
def optimizer_of_signs(seams: Seams) -> None:
    """The optimizer steps by the gradient's sign with the rate of one that steps by its value."""
    seams.before_step(lambda optimizer: [each.sign_() for each in _gradients(optimizer)])


def _schedules() -> list[type]:
    kinds = {found for found in vars(lr_scheduler).values() if inspect.isclass(found)}
    return sorted(
        (each for each in kinds if issubclass(each, lr_scheduler.LRScheduler) and "step" in vars(each)),
        key=lambda each: each.__name__,
    )


@operator("schedule", Cause.LEARNING_RATE_SCHEDULE, seam=f"{SCHEDULES}: `step`", unreached="programs without one")
def schedule_never_stepped(seams: Seams) -> None:
    """A schedule is built, and never stepped after its first value."""

    def step(original: Any, schedule: Any, *args: Any, **kwargs: Any) -> None:
        if getattr(schedule, "last_epoch", -1) < 0:
            original(schedule, *args, **kwargs)
        else:
            seams.touch()

    for kind in _schedules():
        seams.wrap(kind, "step", step)


@operator(
    "schedule",
    Cause.LEARNING_RATE_SCHEDULE,
    seam=f"{SCHEDULES}: `step`",
    unreached="programs without one; OneCycleLR refuses",
    is_silent=True,
)
def schedule_stepped_too_often(seams: Seams) -> None:
    """A schedule is stepped ten times where once was meant: by the batch, not by the epoch (transformers-33455)."""

    def step(original: Any, schedule: Any, *args: Any, **kwargs: Any) -> None:
        is_first = getattr(schedule, "last_epoch", -1) < 0
        for _ in range(1 if is_first else 10):
            original(schedule, *args, **kwargs)
        if not is_first:
            seams.touch()

    for kind in _schedules():
        seams.wrap(kind, "step", step)


@operator("schedule", Cause.LEARNING_RATE_SCHEDULE, seam=AFTER_STEP, unreached="schedules that set the rate themselves")
def rate_grows(seams: Seams) -> None:
    """The learning rate grows by a twentieth at each step, as by an exponent of the wrong sign."""

    def grow(optimizer: Optimizer, _step: int) -> None:
        seams.touch()
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * 1.05

    seams.after_step(grow)


@operator("schedule", Cause.LEARNING_RATE_SCHEDULE, seam=AFTER_STEP, unreached="schedules that set the rate themselves")
def rate_collapses(seams: Seams) -> None:
    """The learning rate is divided by 10,000 after 20 steps, as at a milestone in the wrong unit."""

    def collapse(optimizer: Optimizer, step: int) -> None:
        if step == 20:
            seams.touch()
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 1e-4

    seams.after_step(collapse)


def _cast(seams: Seams, dtype: torch.dtype) -> None:
    """Hold the parameters of each optimizer in another type, and hand the model inputs of that type."""

    def cast(groups: list[dict[str, Any]], _defaults: dict[str, Any]) -> None:
        for group in groups:
            for each in group["params"]:
                each.data = each.data.to(dtype)

    def inward(module: nn.Module, values: Tensor) -> Tensor:
        if not any(each.dtype is dtype for each in module.parameters()):
            return values
        for buffer in module.buffers():  # running statistics, as `Module.to` casts them
            if buffer.is_floating_point() and buffer.dtype is not dtype:
                buffer.data = buffer.data.to(dtype)
        return values.to(dtype)

    seams.at_building(cast)
    seams.at_calls(inward, lambda _, values: values.float() if values.dtype is dtype else values)


WEIGHTS = f"{BUILDING}: the parameters' type; `Module.__call__` casts what goes in and comes out"


@operator("precision", Cause.LOST_UPDATES, Cause.PRECISION_OVERFLOW, seam=WEIGHTS, unreached="models that check types")
def weights_in_bfloat16(seams: Seams) -> None:
    """Weights are held in bfloat16 without a copy in float32, so that small updates are rounded away."""
    _cast(seams, torch.bfloat16)


@operator("precision", Cause.PRECISION_OVERFLOW, Cause.LOST_UPDATES, seam=WEIGHTS, unreached="models that check types")
def weights_in_float16(seams: Seams) -> None:
    """Weights are held in float16, and no scaler keeps gradients in its range."""
    _cast(seams, torch.float16)


@operator("resume", seam=AFTER_STEP, unreached="optimizers without a state")
def optimizer_state_lost(seams: Seams) -> None:
    """The optimizer's state is lost every tenth step, as by a resume that loads the model alone."""

    def lose(optimizer: Optimizer, step: int) -> None:
        if step % 10 == 0 and optimizer.state:
            seams.touch()
            optimizer.state.clear()

    seams.after_step(lose)


@operator("resume", Cause.WEIGHTS_SET_BACK, seam=AFTER_STEP, unreached=NO_STEP)
def weights_lost(seams: Seams) -> None:
    """Every fortieth step the weights are those of the first step again, as by a resume from a stale checkpoint."""
    first: dict[int, list[Tensor]] = {}

    def restore(optimizer: Optimizer, step: int) -> None:
        parameters = parameters_of(optimizer)
        kept = first.setdefault(id(optimizer), [each.detach().clone() for each in parameters])
        if step % 40 == 0:
            seams.touch()
            with torch.no_grad():
                for each, before in zip(parameters, kept, strict=True):
                    each.copy_(before)

    seams.after_step(restore)
