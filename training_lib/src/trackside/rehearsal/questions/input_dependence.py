"""output-depends-on-input: other samples give other outputs.

What rounding alone could make is no difference. The errors of a sum of n terms walk at random: they come to the square
root of n units of rounding, times a factor that sets how sure that is (Higham and Mary, A new approach to probabilistic
rounding error analysis, 2019). Here n is the number of terms on the way through all layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.rows import batch_with_rows
from trackside.rehearsal.subject import Subject, difference

_SURE = 4.0  # standard deviations of the walk
_WIDEST_UNIT = torch.finfo(torch.float32).eps / 2  # narrower types are summed in this one, and any two differ by more


class InputDependence(Probe):
    """Evaluate the batch with its samples in another order."""

    name = "output-depends-on-input"
    place = 10
    needs_numbers = True
    what = "The output is the same for every sample: the input does not reach it."
    cures = (
        "Look for the last layer at which two samples still differ: a dead activation, a scale of 0, an unused input.",
        "If the learning rate is high, the first steps may have driven all units of a layer to zero: lower it.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault where no output changes."""
        inputs = subject.program.inputs()
        if not inputs:
            raise DoesNotApplyError("the models are called without tensors from outside")
        before = subject.evaluated()
        batch = batch_with_rows(inputs, list(before.values()))
        turned = batch.turned()
        rows = {key: value for key, value in before.items() if batch.axis_of(value) is not None}
        change = difference(rows, subject.evaluated(inputs=turned))
        nothing = _from_rounding(subject, rows.values())
        if change > nothing:
            return self.ok(f"with other samples the outputs change by {change:.2g} of the largest")
        program = subject.program
        in_training = difference(subject.trained(program).outputs, subject.trained(program, inputs=turned).outputs)
        if in_training > nothing:  # running statistics may follow the training slowly
            return self.ok(f"with other samples the outputs change by {in_training:.2g} of the largest, in training")
        return self.fault(f"with other samples the outputs change by {change:.1g} of the largest")


def _from_rounding(subject: Subject, outputs: Iterable[torch.Tensor]) -> float:
    """Return the change of outputs, relative to the largest, that rounding may make."""
    units = [torch.finfo(each.dtype).eps / 2 for each in outputs if each.is_floating_point()]
    modules = [
        module for _, module in subject.named_modules() if not isinstance(module, (nn.Embedding, nn.EmbeddingBag))
    ]
    held = [p for module in modules for p in module._parameters.values() if p is not None and p.ndim > 1 and p.shape[0]]
    terms = sum(p.numel() // p.shape[0] for p in held)
    return _SURE * math.sqrt(max(1, terms)) * min([_WIDEST_UNIT, *units])
