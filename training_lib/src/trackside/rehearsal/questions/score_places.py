"""scores-meet-labels: labels differ, and each of them is held against scores of its own place, of the kind it needs.

Of a cross entropy, that is; of a loss of log-probabilities, these are none above zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.rehearsal.step_program import Call, StepProgram, repeated
from trackside.rehearsal.subject import Subject

_FEWEST_LABELS = 256  # of a rehearsal: so many of a single class are no accident of a rare other one
_FEWEST_NUMBERS = 1024  # the same for a single number: counts and sums are often zero
_ROUNDED = 1e-2  # log-probabilities of half precision, of a class that is certain
_MOVES = frozenset(
    ("view", "reshape", "flatten", "unflatten", "transpose", "swapaxes", "permute", "movedim", "contiguous", "squeeze",
     "unsqueeze", "clone", "to", "float", "t", "__getitem__")
)  # fmt: skip


class ScorePlaces(Probe):
    """Follow the numbers of the places, in place of the scores, from the model's output to the loss."""

    name = "scores-meet-labels"
    place = 45
    what = "The scores for one label come from several places of the model's output."
    cures = (
        "Move the axis of the classes by transpose or permute: view and reshape keep the order of the numbers.",
        "Or flatten both: loss(scores.reshape(-1, classes), labels.reshape(-1)).",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault for scores that come from several places, and for labels that are all of one class."""
        if above := _no_logarithms(subject):
            return self.fault(
                above,
                what="The loss expects log-probabilities, and gets probabilities or scores.",
                cures=("Give it functional.log_softmax(scores, dim), not softmax(...) nor the scores themselves.",),
            )
        path = next(_paths(subject.program), None)
        if path is None:
            raise DoesNotApplyError("no cross entropy or error takes a model's output as it is, or moved only")
        source, moves, loss = path
        results = subject.trained(subject.program).results
        output, scores = results[source], results[loss.first_slot or 0]
        axis = 0 if scores.ndim == 1 else 1
        classes = 1 if loss.is_error else scores.shape[axis]
        alike = _alike(subject, loss, classes)
        if alike:
            return self.fault(
                alike,
                what="Every label is the same.",
                cures=("Look at the column, the file and the type from which labels are read.",),
            )
        if loss.is_error:
            return self.ok(f"{subject.labels.numbers.count} labels differ from one another")
        axes = [number for number, size in enumerate(output.shape) if size == classes]
        if len(axes) != 1:
            raise NotTriedError("the axis of the classes is not known")
        places = _places(output, axes[0])
        for move in moves:
            (places,) = repeated(move, {move.first_slot or 0: places}, {})
        if bool((places == places.narrow(axis, 0, 1)).all()):
            return self.ok(f"the scores for each of {places.numel() // classes} labels come from one place")
        return self.fault(f"an output of shape {tuple(output.shape)} becomes scores of shape {tuple(scores.shape)}")


def _no_logarithms(subject: Subject) -> str:
    """Return what stands in the place of log-probabilities; "" for these, and without a loss that takes them."""
    calls = [(call, call.first_slot) for call in subject.program.calls if call.takes_log_probabilities]
    found = subject.trained(subject.program).results if calls else {}
    for call, slot in calls:
        if slot is not None and found[slot].numel() and (highest := float(found[slot].max())) > _ROUNDED:
            return f"{call.name} gets numbers up to {highest:.3g}, and no log-probability is above 0"
    return ""


def _alike(subject: Subject, loss: Call, classes: int) -> str:
    """Return what is known of labels that are all the same; "" if they are not, or may be meant to be.

    A step of several losses may ask for one number in each of them: that a discriminator says 1, and then 0.
    """
    seen = subject.labels
    if loss.is_error:
        is_alone = len(subject.steps) == 1 and len(subject.steps[0][1]) == 1 and not subject.is_partial
        is_constant = is_alone and bool(loss.constants()) and seen.numbers.is_single
        many = is_constant and seen.numbers.count >= _FEWEST_NUMBERS
        return f"all {seen.numbers.count} labels are {seen.numbers.lowest:.4g}" if many else ""
    many = seen.classes.is_single and seen.classes.count >= _FEWEST_LABELS and classes > 1
    return f"all {seen.classes.count} labels are class {seen.classes.lowest:g} of {classes}" if many else ""


def _paths(program: StepProgram) -> Iterator[tuple[int, list[Call], Call]]:
    """Yield the number of a model's output, the calls that move it, and the loss that takes the result."""
    made = {number: call for call in program.calls for number in call.outputs}
    for loss in program.calls:
        if not loss.is_cross_entropy and not (loss.is_error and program.loss in loss.outputs):
            continue
        call = _maker(loss, made)
        moves: list[Call] = []
        while call is not None and not call.is_model and call.name in _MOVES:
            moves.insert(0, call)
            call = _maker(call, made)
        source = (moves[0] if moves else loss).first_slot
        if call is not None and call.is_model and source is not None:
            yield source, moves, loss


def _maker(call: Call, made: Mapping[int, Call]) -> Call | None:
    """Return the call that made the first argument of another; None for a tensor from outside."""
    return None if call.first_slot is None else made.get(call.first_slot)


def _places(output: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the number of the place of each element of an output, the same along the axis of the classes."""
    shape = [size for number, size in enumerate(output.shape) if number != axis]
    numbers = torch.arange(math.prod(shape), dtype=torch.float64, device=output.device).reshape(shape)
    return numbers.unsqueeze(axis).expand(output.shape).contiguous()
