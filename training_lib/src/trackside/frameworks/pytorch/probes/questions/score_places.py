"""scores-meet-labels: each label of a cross entropy is held against the scores of its own place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from trackside.contracts.check import Answer
from trackside.frameworks.pytorch.probes.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.frameworks.pytorch.probes.step_program import Call, StepProgram, repeated
from trackside.frameworks.pytorch.probes.subject import Subject

_FEWEST_LABELS = 256  # of a rehearsal: so many of a single class are no accident of a rare other one
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
        path = next(_paths(subject.program), None)
        if path is None:
            raise DoesNotApplyError("no cross entropy takes a model's output as it is, or moved only")
        source, moves, loss = path
        results = subject.trained(subject.program).results
        output, scores = results[source], results[loss.first_slot or 0]
        axis = 0 if scores.ndim == 1 else 1
        classes, seen = scores.shape[axis], subject.labels
        if seen.is_single and seen.count >= _FEWEST_LABELS and classes > 1:
            return self.fault(
                f"all {seen.count} labels are class {seen.lowest} of {classes}",
                what="Every label is the same.",
                cures=("Look at the column, the file and the type from which labels are read.",),
            )
        axes = [number for number, size in enumerate(output.shape) if size == classes]
        if len(axes) != 1:
            raise NotTriedError("the axis of the classes is not known")
        places = _places(output, axes[0])
        for move in moves:
            (places,) = repeated(move, {move.first_slot or 0: places}, {})
        if bool((places == places.narrow(axis, 0, 1)).all()):
            return self.ok(f"the scores for each of {places.numel() // classes} labels come from one place")
        return self.fault(f"an output of shape {tuple(output.shape)} becomes scores of shape {tuple(scores.shape)}")


def _paths(program: StepProgram) -> Iterator[tuple[int, list[Call], Call]]:
    """Yield the number of a model's output, the calls that move it, and the cross entropy that takes the result."""
    made = {number: call for call in program.calls for number in call.outputs}
    for loss in program.calls:
        if not loss.is_cross_entropy:
            continue
        call = _maker(loss, made)
        moves: list[Call] = []
        while call is not None and not call.is_model and getattr(call.call, "__name__", "") in _MOVES:
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
