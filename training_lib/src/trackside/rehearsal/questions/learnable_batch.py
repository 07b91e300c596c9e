"""one-batch-is-learnable: some steps on one batch lower its loss."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.optim.optimizer import Optimizer

from trackside.contracts.run.check import Answer
from trackside.frameworks.pytorch.optimizers.other_kinds import StandIn
from trackside.rehearsal.gradient_changes import GradientChanges
from trackside.rehearsal.kept_state import KeptState
from trackside.rehearsal.probe import NotTriedError, Probe
from trackside.rehearsal.step_program import StepProgram
from trackside.rehearsal.subject import Subject

STEPS = 30
_LEARNED = 0.1  # share of the loss that is gone
_ENOUGH = 0.5
_NOTHING = 0.005
_STILL = 1e-3  # share of the loss: what an optimizer leaves so in so many steps, it leaves so in thousands
_WORSE = 0.2
_NEWEST = 5  # losses that decide whether it is worse: a high rate makes single ones jump
_REFERENCE_RATES = (1e-3, 1e-2)
_TIME_IS_UP = "the time for probes is up (--probe-seconds)"
_BY_HAND = "the script's own optimizer was not tried: a replay does not give the gradients that it got"
_MOST_SECONDS = 25.0  # of one attempt
_FEWEST_STEPS = 10  # of an attempt that the time has cut off, and that may accuse: Adam's first steps are no evidence


class LearnableBatch(Probe):
    """Train the models on one batch again and again, by the script's optimizer, else by AdamW."""

    name = "one-batch-is-learnable"
    place = 100
    needs_numbers = True
    what = "Training on one batch again and again does not lower its loss."
    cures = (
        "Check the sign of the loss, and that its gradient reaches the weights that the optimizer holds.",
        "Look for units that are all dead or saturated, and for a softmax over an axis of one entry.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault if no optimizer lowers the loss, or if the script's own raises it where AdamW lowers it."""
        if len(subject.steps) != 1 or len(subject.steps[0][1]) != 1:
            raise NotTriedError("a step has several losses or optimizers")
        optimizer, (program,) = subject.steps[0]
        scale = self._scale(subject, program, optimizer)
        own = None if scale is None else self._attempt(subject, program, optimizer, rate=None, scale=scale)
        if own is not None and own.share >= _LEARNED:
            return self.ok(own.observed)
        if own is not None and self._was_learned(subject, own):
            return self.ok(f"{own.observed}: it was learned in the steps before")
        best = self._best(subject, program, optimizer, own)
        if best is None:
            raise NotTriedError(_TIME_IS_UP)
        if best.share < _NOTHING and best.is_cut:
            raise NotTriedError(f"{_TIME_IS_UP}: {best.observed}")
        if best.share < _NOTHING:
            return self.fault(f"{best.observed}, at best")
        fault = None if own is None else self._fault_of_optimizer(subject, program, optimizer, own, best)
        if fault is not None:
            return fault
        if scale is None:
            return self.ok(f"{best.observed}; {_BY_HAND}")
        return self.ok(best.observed if own is best or own is None else f"{own.observed}; {best.observed}")

    def _best(
        self, subject: Subject, program: StepProgram, optimizer: Optimizer, own: _Attempt | None
    ) -> _Attempt | None:
        """Return the best attempt: the script's own one, or one by AdamW."""
        attempts = [own]
        for rate in _REFERENCE_RATES:
            attempts.append(self._attempt(subject, program, optimizer, rate=rate))
            if attempts[-1] is not None and attempts[-1].share >= _LEARNED:
                break
        return max((each for each in attempts if each is not None), key=lambda each: each.share, default=None)

    def _fault_of_optimizer(
        self, subject: Subject, program: StepProgram, optimizer: Optimizer, own: _Attempt, best: _Attempt
    ) -> Answer | None:
        """Return a fault if the script's optimizer raises the loss, or leaves it as it is, where another lowers it."""
        observed, where = f"the script's optimizer: {own.observed}; {best.observed}", type(optimizer).__name__
        if own.is_cut:
            return None
        if own.is_worse and self._stays_worse(subject, program, optimizer):
            return self.fault(
                observed,
                where=where,
                what="The script's own optimizer raises the loss of a batch that can be learned.",
                cures=(
                    "Divide the learning rate by ten, clip gradients, or warm the rate up.",
                    "Check the sign of the loss against the optimizer's `maximize`.",
                ),
            )
        if own.is_still and best.share >= _LEARNED and not self._is_warming_up(subject, optimizer):
            return self.fault(
                observed,
                where=where,
                what="The script's own optimizer leaves the loss of a batch as it is that can be learned.",
                cures=("Look at the learning rate: it is far too low, or the schedule begins at its end.",),
            )
        return None

    def _scale(self, subject: Subject, program: StepProgram, optimizer: Optimizer) -> float | None:
        kept = KeptState(subject.models)
        try:
            return subject.gradient_scale(program, optimizer)
        finally:
            kept.restore()

    def _stays_worse(self, subject: Subject, program: StepProgram, optimizer: Optimizer) -> bool:
        """Return True if the optimizer raises the loss at the rate of the script's newest step.

        At a higher rate, which is planned for later, gradients are clipped first: a script warms up for a reason.
        """
        if id(optimizer) in subject.changes and _planned_rates(optimizer) == _rates(optimizer):
            return True
        found = self._attempt(subject, program, optimizer, rate=None, most_gradient=1.0)
        return found is not None and not found.is_cut and found.is_worse

    def _is_warming_up(self, subject: Subject, optimizer: Optimizer) -> bool:
        return subject.changes.get(id(optimizer), GradientChanges()).is_warming_up

    def _was_learned(self, subject: Subject, own: _Attempt) -> bool:
        return abs(own.first) < 0.05

    def _attempt(
        self,
        subject: Subject,
        program: StepProgram,
        optimizer: Optimizer,
        *,
        rate: float | None,
        scale: float = 1.0,
        most_gradient: float = math.inf,
    ) -> _Attempt | None:
        """Return the losses of some steps; None if the time is up, or the optimizer cannot be copied.

        Without a `rate` they are steps of the script's own optimizer, with gradients scaled and clipped as it does.
        """
        seconds = min(_MOST_SECONDS, subject.time_left() / 2)
        if seconds < 1:
            return None
        kept = KeptState(subject.models)
        try:
            parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
            made = _copy_of(optimizer) if rate is None else torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
            if made is None:
                return None
            changes = subject.changes.get(id(optimizer), GradientChanges()) if rate is None else GradientChanges()

            def change() -> None:
                changes.repeat(tuple(parameters), scale=scale)
                if most_gradient < math.inf:
                    torch.nn.utils.clip_grad_norm_(parameters, most_gradient)

            return _losses(subject, program, made, parameters, seconds=seconds, change=change)
        finally:
            kept.restore()


@dataclass(frozen=True)
class _Attempt:
    """The losses of one attempt.

    losses  first to last
    by      name of the optimizer
    is_cut  True if the time was up before it had made enough steps to accuse anything
    """

    losses: tuple[float, ...]
    by: str
    is_cut: bool

    @property
    def first(self) -> float:
        return self.losses[0]

    @property
    def share(self) -> float:
        """The share of the loss that is gone; minus infinity if it is lost."""
        last = [each for each in self.losses[1:] if math.isfinite(each)]
        if not math.isfinite(self.first) or not last:
            return -math.inf
        return (self.first - min(last)) / max(abs(self.first), 1e-12)

    @property
    def is_worse(self) -> bool:
        newest = self.losses[1:][-_NEWEST:]
        return not math.isfinite(newest[-1]) or min(newest) > self.first + _WORSE * abs(self.first)

    @property
    def is_still(self) -> bool:
        return max(abs(each - self.first) for each in self.losses) < _STILL * abs(self.first)

    @property
    def observed(self) -> str:
        steps = len(self.losses) - 1
        made = f"{steps} step{'' if steps == 1 else 's'} of {self.by}"
        return f"loss of one batch {self.first:.4g} → {self.losses[-1]:.4g} in {made}"


def _losses(
    subject: Subject,
    program: StepProgram,
    optimizer: Optimizer,
    parameters: list[torch.Tensor],
    *,
    seconds: float,
    change: Callable[[], object],
) -> _Attempt:
    rates = sorted({float(group["lr"]) for group in optimizer.param_groups if "lr" in group})
    name = type(optimizer).__name__ + (f" (rate {rates[-1]:.3g})" if rates else "")
    found: list[float] = []
    is_cut = False
    end = time.monotonic() + seconds

    def closure() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = None
        loss = subject.trained(program).loss
        torch.autograd.backward(loss)
        change()
        return loss

    while len(found) <= STEPS and (len(found) < 3 or time.monotonic() < end):
        loss = closure()
        found.append(float(loss.detach()))
        if not found[0] - found[-1] < _ENOUGH * abs(found[0]):  # learned, or no number any more
            break
        if isinstance(optimizer, torch.optim.LBFGS):
            optimizer.step(closure)  # type: ignore[no-untyped-call] # torch's own omission
        else:
            optimizer.step()
    else:
        is_cut = len(found) <= _FEWEST_STEPS
    return _Attempt(tuple(found), name, is_cut)


def _copy_of(optimizer: Optimizer) -> Optimizer | None:
    """Return a copy of the same parameters with a state of its own, at the highest rate that its schedule plans."""
    if isinstance(optimizer, StandIn):  # of one that is none of PyTorch's
        return None
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    try:
        made = copy.deepcopy(optimizer, {id(p): p for p in parameters})
    except Exception:  # noqa: BLE001 - an optimizer that cannot be copied costs one attempt
        return None
    for group, rate in zip(made.param_groups, _planned_rates(optimizer), strict=True):
        if isinstance(rate, float):
            group["lr"] = rate
    return made


def _rates(optimizer: Optimizer) -> list[object]:
    return [group.get("lr") for group in optimizer.param_groups]


def _planned_rates(optimizer: Optimizer) -> list[object]:
    """Return the highest rate of each group that its schedule plans; a rate that is no float as it is."""
    return [_planned_rate(group) for group in optimizer.param_groups]


def _planned_rate(group: Mapping[str, object]) -> object:
    planned = [rate for name in ("lr", "initial_lr", "max_lr") if isinstance(rate := group.get(name), float)]
    return max(planned) if isinstance(group.get("lr"), float) else group.get("lr")
