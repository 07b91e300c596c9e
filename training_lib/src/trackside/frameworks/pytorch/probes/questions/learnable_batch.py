"""one-batch-is-learnable: some steps on one batch lower its loss."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass

import torch
from torch.optim.optimizer import Optimizer

from trackside.contracts.check import Answer
from trackside.frameworks.pytorch.probes.kept_state import KeptState
from trackside.frameworks.pytorch.probes.probe import NotTriedError, Probe
from trackside.frameworks.pytorch.probes.step_program import StepProgram
from trackside.frameworks.pytorch.probes.subject import Subject

STEPS = 30
_LEARNED = 0.1  # share of the loss that is gone
_ENOUGH = 0.5
_NOTHING = 0.005
_WORSE = 0.2
_REFERENCE_RATES = (1e-3, 1e-2)
_MOST_SECONDS = 25.0  # of one attempt


class LearnableBatch(Probe):
    """Train the models on one batch again and again, by the script's optimizer, else by AdamW."""

    name = "one-batch-is-learnable"
    place = 100
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
        own = self._attempt(subject, program, optimizer, rate=None)
        if own is not None and own.share >= _LEARNED:
            return self.ok(own.observed)
        if own is not None and self._was_learned(subject, own):
            return self.ok(f"{own.observed}: it was learned in the steps before")
        attempts = []
        for rate in _REFERENCE_RATES:
            found = self._attempt(subject, program, optimizer, rate=rate)
            if found is not None:
                attempts.append(found)
            if found is not None and found.share >= _LEARNED:
                break
        best = max([each for each in (own, *attempts) if each is not None], key=lambda each: each.share, default=None)
        if best is None:
            raise NotTriedError("the time for probes is up")
        if best.share < _NOTHING:
            return self.fault(f"{best.observed}, at best")
        if own is not None and own.is_worse and self._stays_worse(subject, program, optimizer):
            return self.fault(
                f"the script's optimizer: {own.observed}; {best.observed}",
                where=type(optimizer).__name__,
                what="The script's own optimizer raises the loss of a batch that can be learned.",
                cures=(
                    "Divide the learning rate by ten, clip gradients, or warm the rate up.",
                    "Check the sign of the loss against the optimizer's `maximize`.",
                ),
            )
        return self.ok(best.observed if own is best or own is None else f"{own.observed}; {best.observed}")

    def _stays_worse(self, subject: Subject, program: StepProgram, optimizer: Optimizer) -> bool:
        """Return True if the script's optimizer raises the loss with clipped gradients, too; the script may clip."""
        found = self._attempt(subject, program, optimizer, rate=None, most_gradient=1.0)
        return found is not None and found.is_worse

    def _was_learned(self, subject: Subject, own: _Attempt) -> bool:
        return abs(own.first) < 0.05

    def _attempt(
        self,
        subject: Subject,
        program: StepProgram,
        optimizer: Optimizer,
        *,
        rate: float | None,
        most_gradient: float = math.inf,
    ) -> _Attempt | None:
        """Return the losses of some steps; None if the time is up, or the optimizer cannot be copied."""
        seconds = min(_MOST_SECONDS, subject.time_left() / 2)
        if seconds < 1:
            return None
        kept = KeptState(subject.models)
        try:
            parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
            made = _copy_of(optimizer) if rate is None else torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
            return (
                None
                if made is None
                else _losses(subject, program, made, parameters, seconds=seconds, most_gradient=most_gradient)
            )
        finally:
            kept.restore()


@dataclass(frozen=True)
class _Attempt:
    """The losses of one attempt, first to last, and the optimizer's name."""

    losses: tuple[float, ...]
    by: str

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
        last = self.losses[-1]
        return not math.isfinite(last) or last > self.first + _WORSE * abs(self.first)

    @property
    def observed(self) -> str:
        steps = len(self.losses) - 1
        return f"loss of one batch {self.first:.4g} → {self.losses[-1]:.4g} in {steps} steps of {self.by}"


def _losses(
    subject: Subject,
    program: StepProgram,
    optimizer: Optimizer,
    parameters: list[torch.Tensor],
    *,
    seconds: float,
    most_gradient: float,
) -> _Attempt:
    rates = sorted({float(group["lr"]) for group in optimizer.param_groups if "lr" in group})
    name = type(optimizer).__name__ + (f" (rate {rates[-1]:.3g})" if rates else "")
    found: list[float] = []
    end = time.monotonic() + seconds

    def closure() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = None
        loss = subject.trained(program).loss
        torch.autograd.backward(loss)
        if most_gradient < math.inf:
            torch.nn.utils.clip_grad_norm_(parameters, most_gradient)
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
    return _Attempt(tuple(found), name)


def _copy_of(optimizer: Optimizer) -> Optimizer | None:
    """Return a copy of the same parameters with a state of its own, at the highest rate that its schedule plans."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    try:
        made = copy.deepcopy(optimizer, {id(p): p for p in parameters})
    except Exception:  # noqa: BLE001 - an optimizer that cannot be copied costs one attempt
        return None
    for group in made.param_groups:
        planned = [group[name] for name in ("lr", "initial_lr", "max_lr") if isinstance(group.get(name), float)]
        if planned and isinstance(group.get("lr"), float):
            group["lr"] = max(planned)
    return made
