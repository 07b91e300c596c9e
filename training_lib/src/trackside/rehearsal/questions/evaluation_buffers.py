"""evaluation-statistics-follow: values that only evaluation uses change while the model trains."""

from __future__ import annotations

import torch

from trackside.contracts.run.check import Answer
from trackside.frameworks.pytorch.ground.script_objects import named_buffers_of
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.subject import Outputs, Subject, difference

_NOTHING = 1e-6  # of the largest output
_MOST_NAMED = 3


class EvaluationBuffers(Probe):
    """Change the buffers that the training has left as they were, and compare evaluation and training."""

    name = "evaluation-statistics-follow"
    place = 50
    what = "Evaluation uses buffers that the training neither uses nor updates: they are still as they were created."
    cures = (
        "Batch normalisation: give it a momentum above 0 (the default is 0.1), and call train() before training.",
        "Update running statistics in forward in training mode, in place, on a registered buffer.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault for buffers that evaluation depends on, the training does not, and that never change."""
        buffers = {name: b for root in subject.models for name, b in _floating_buffers(root)}
        if not buffers:
            raise DoesNotApplyError("the models have no buffers of numbers")
        still = {
            name: b
            for name, b in buffers.items()
            if (first := subject.first_values.get(name)) is not None and torch.equal(first, b)
        }
        guilty = self._guilty(subject, still)
        if not guilty:
            return self.ok(f"{len(buffers)} buffers: each changes, or serves training and evaluation alike")
        more = f" and {len(guilty) - _MOST_NAMED} more" if len(guilty) > _MOST_NAMED else ""
        return self.fault(
            f"{len(guilty)} of {len(buffers)} buffers unchanged since the first step",
            where=", ".join(guilty[:_MOST_NAMED]) + more,
        )

    def _guilty(self, subject: Subject, still: dict[str, torch.Tensor]) -> list[str]:
        if not still:
            return []
        evaluated, trained = subject.evaluated(), _trained(subject)
        values = {name: buffer.clone() for name, buffer in still.items()}

        def changes(names: list[str]) -> tuple[float, float]:
            for name in names:
                still[name].mul_(1.5).add_(0.25)
            in_evaluation = difference(evaluated, subject.evaluated())
            for name in names:
                still[name].copy_(values[name]).mul_(1.5).add_(0.25)
            in_training = difference(trained, _trained(subject))
            for name, value in values.items():
                still[name].copy_(value)
            return in_evaluation, in_training

        if changes(list(still))[0] <= _NOTHING:
            return []
        found = []
        for name in still:
            if subject.time_left() <= 0:
                break
            in_evaluation, in_training = changes([name])
            if in_evaluation > _NOTHING and in_training <= _NOTHING:
                found.append(name)
        return found


def _trained(subject: Subject) -> Outputs:
    return subject.trained(subject.program).outputs


def _floating_buffers(root: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    named = [(f"{type(root).__name__}.{name}", buffer) for name, buffer in named_buffers_of(root)]
    return [(name, buffer) for name, buffer in named if buffer.is_floating_point()]
