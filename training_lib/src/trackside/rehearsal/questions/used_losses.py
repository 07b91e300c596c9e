"""losses-reach-the-step: the gradients of each loss of a step are in those that the optimizer uses."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trackside.contracts.run.check import Answer
from trackside.rehearsal.gradient_changes import GradientChanges
from trackside.rehearsal.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.rehearsal.step_program import StepProgram
from trackside.rehearsal.subject import Subject

_SAME = 2e-2  # of the norm, after clipping: a replay on other threads changes the last digits
_BY_VALUE = "clip_grad_value_"

Gradients = tuple[torch.Tensor, ...]


class UsedLosses(Probe):
    """Replay the backward passes of a step, and hold their sums against the gradients that the optimizer got."""

    name = "losses-reach-the-step"
    place = 78
    what = "Gradients of a loss are cleared before the step that should use them."
    cures = (
        "Call zero_grad() once a step: before the first backward pass, or after the optimizer's step.",
        "If the first pass is for something else, as its gradients are read, compute them by torch.autograd.grad.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault where the optimizer got what the last losses of a step give, without those before them."""
        if len(subject.steps) != 1 or len(subject.steps[0][1]) < 2:
            raise DoesNotApplyError("a step has one loss, or several optimizers")
        optimizer, losses = subject.steps[0]
        changes = subject.changes.get(id(optimizer))
        is_by_value = changes is not None and any(each.function == _BY_VALUE for each in changes.clippings)
        if subject.is_partial or changes is None or not changes.is_observable or is_by_value:
            raise NotTriedError("not all gradients of the step can be replayed")
        if _looks_elsewhere(losses):
            raise DoesNotApplyError("weights move, or inputs get gradients, between the losses of a step")
        alone = [_gradients(program, changes) for program in losses]
        final = tuple(gradient.double() for _, gradient in changes.final)
        rests = [tuple(sum(terms) for terms in zip(*alone[first:], strict=True)) for first in range(len(alone))]
        used = next((first for first, rest in enumerate(rests) if _are_along(rest, final)), None)
        if used is None:
            raise NotTriedError("a replay does not give the gradients that the optimizer got")
        if used == 0:
            return self.ok(f"the optimizer got the gradients of all {len(losses)} losses")
        return self.fault(f"the optimizer got the gradients of {len(losses) - used} of {len(losses)} losses of a step")


def _looks_elsewhere(losses: Sequence[StepProgram]) -> bool:
    """Return True for passes that train nothing: around other weights, for inputs, or of a part of a loss."""
    calls = [call for program in losses for call in program.calls]
    first: dict[int, torch.Tensor] = {}
    for tensor, value in [pair for call in calls for pair in call.state if isinstance(pair[0], torch.nn.Parameter)]:
        if not torch.equal(first.setdefault(id(tensor), value), value):
            return True
    if any(constant.requires_grad for call in calls for constant in call.constants()):
        return True
    made = [{number for call in program.calls for number in call.outputs} for program in losses]
    return any(one.loss in later for place, one in enumerate(losses) for later in made[place + 1 :])


def _gradients(program: StepProgram, changes: GradientChanges) -> Gradients:
    """Return the gradients of one loss, as recorded, of the parameters that the optimizer had gradients of."""
    parameters = [parameter for parameter, _ in changes.final]
    for parameter in parameters:
        parameter.grad = None
    program.set_recorded_modes()
    torch.autograd.backward(program.replay(as_recorded=True).loss)
    return tuple(torch.zeros_like(p).double() if p.grad is None else p.grad.detach().double() for p in parameters)


def _are_along(given: Gradients, final: Gradients) -> bool:
    """Return True if both are the same but for one positive factor, as clipping by norm leaves them."""
    one, other = (torch.cat([each.reshape(-1) for each in some]) for some in (given, final))
    norms = float(one.norm()), float(other.norm())
    if min(norms) <= 0:
        return False
    return float((one / norms[0] - other / norms[1]).norm()) < _SAME
