"""gradients-depend-on-labels: other labels give other gradients."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.rehearsal.step_program import StepProgram
from trackside.rehearsal.subject import Subject, gap

_RESOLUTION = 1e-6  # of numbers in single precision, with a digit to spare
_NOTHING = 1e-4  # of the largest gradient: sums in another order
_SPREAD = 4.0  # times that of the outputs

Gradients = dict[int, torch.Tensor]


class LabelDependence(Probe):
    """Replace all that the loss takes beside the model's outputs: each row by the first."""

    name = "gradients-depend-on-labels"
    place = 82
    what = "The gradients are the same for any labels, so that nothing can be learned from these."
    needs_numbers = True
    cures = ("Look at the loss: is the error squared, or its absolute value taken, before the mean?",)

    def answer(self, subject: Subject) -> Answer:
        """Return a fault where no gradient changes."""
        if len(subject.steps) != 1 or len(subject.steps[0][1]) != 1 or subject.is_partial:
            raise NotTriedError("a step has several losses or optimizers")
        others = _other_labels(subject.program)
        if not others:
            raise DoesNotApplyError("the loss takes no tensor with different rows beside the outputs of modules")
        before = self._gradients(subject, {})
        if not any(bool(gradient.any()) for gradient in before.values()):
            raise NotTriedError("all gradients are zero")
        if _drown(subject, others[0]):
            raise NotTriedError("the outputs are so large that labels are lost beside them")
        change = 0.0
        for labels in others:
            change = self._change(subject, before, labels)
            if change > 0:  # a loss without labels in its gradient computes the very same numbers
                break
        else:
            return self.fault("with other labels the gradients are the same, bit for bit")
        observed = f"with other labels the gradients change by {change:.2g} of the largest"
        if change > _NOTHING and self._is_of_any_pairs(subject):
            return self.fault(
                f"{observed}; with the labels of other samples they stay as they are",
                what="The loss does not depend on which label belongs to which sample.",
                cures=(
                    "Look at the shapes: outputs of shape (N, 1) and labels of shape (N,) make a table of all pairs.",
                    "Look for a mean over the samples that is taken before outputs and labels are compared.",
                ),
            )
        return self.ok(observed)

    def _is_of_any_pairs(self, subject: Subject) -> bool:
        """Return True if labels and the same labels, each at the next sample, give the same gradients.

        They lie about the outputs: an absolute error has the same gradient for any labels on one side of these.
        """
        labels = _about_the_outputs(subject)
        moved = {key: each.roll(1, 0) for key, each in labels.items()}
        if all(torch.equal(each, moved[key]) for key, each in labels.items()):
            return False
        before = self._gradients(subject, labels)
        return any(bool(each.any()) for each in before.values()) and self._change(subject, before, moved) < _NOTHING

    def _change(self, subject: Subject, before: Gradients, labels: Mapping[int, torch.Tensor]) -> float:
        after = self._gradients(subject, labels)
        return max(gap(gradient, after[key]) if key in after else 1.0 for key, gradient in before.items())

    def _gradients(self, subject: Subject, changed: Mapping[int, torch.Tensor]) -> Gradients:
        parameters = {key: p for key, p in subject.optimizer_parameters().items() if p.requires_grad}
        for parameter in parameters.values():
            parameter.grad = None
        torch.autograd.backward(subject.trained(subject.program, inputs=changed).loss)
        return {key: p.grad.detach().clone() for key, p in parameters.items() if p.grad is not None}


def _drown(subject: Subject, labels: Mapping[int, torch.Tensor]) -> bool:
    """Return True if numbers of the outputs' size cannot hold a difference of the labels' size."""
    outputs = subject.trained(subject.program).outputs.values()
    largest = max((float(each.abs().max()) for each in outputs if each.numel()), default=0.0)
    sizes = [float(each.abs().max()) for each in labels.values() if each.is_floating_point()]
    return bool(sizes) and max(sizes) < largest * _RESOLUTION


def _about_the_outputs(subject: Subject) -> dict[int, torch.Tensor]:
    """Return the tensors that the loss takes from outside with a row for each sample, by id.

    Numbers are moved to the mean of the model's outputs, and spread further than these.
    """
    program = subject.program
    sizes = {len(each) for each in program.inputs() if each.ndim}
    constants = [each for call in program.calls if not call.is_model for each in call.constants()]
    rows = [each for each in constants if each.ndim and len(each) > 1 and len(each) in sizes]
    outputs = torch.cat([each.double().reshape(-1) for each in subject.trained(program).outputs.values()])
    return {id(each): _placed(each, outputs) if each.is_floating_point() else each for each in rows}


def _placed(labels: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    spread, wanted = float(labels.double().std()), _SPREAD * float(outputs.std())
    factor = wanted / spread if 0 < spread < wanted else 1.0
    return ((labels.double() - labels.double().mean()) * factor + outputs.mean()).to(labels)


def _other_labels(program: StepProgram) -> list[dict[int, torch.Tensor]]:
    """Return other values of the tensors that the loss takes from outside, by id.

    First each row is as the first one. Then these have the other sign: an absolute error has the same gradient for all
    labels on one side of the outputs.
    """
    constants = [each for call in program.calls if not call.is_model for each in call.constants()]
    rows = {id(each): each[:1].expand_as(each).contiguous() for each in constants if each.ndim and len(each) > 1}
    alike = {key: rows[key] for each in constants if (key := id(each)) in rows and not torch.equal(each, rows[key])}
    mirrored = {key: -rows for key, rows in alike.items() if rows.is_floating_point()}
    return [labels for labels in (alike, mirrored) if labels]
