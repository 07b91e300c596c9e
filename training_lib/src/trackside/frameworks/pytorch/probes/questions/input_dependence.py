"""output-depends-on-input: other samples give other outputs."""

from __future__ import annotations

from trackside.contracts.check import Answer
from trackside.frameworks.pytorch.probes.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.frameworks.pytorch.probes.rows import batch_of
from trackside.frameworks.pytorch.probes.subject import Subject, difference, gap

_NOTHING = 1e-6  # of the largest output


class InputDependence(Probe):
    """Evaluate the batch with its samples in another order."""

    name = "output-depends-on-input"
    place = 10
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
        batch = batch_of(inputs)
        turned = {id(each): each.roll(1, 0) for each in batch.members}
        if all(gap(each, turned[id(each)]) == 0 for each in batch.members):
            raise NotTriedError("all samples of the batch are alike")
        before = subject.evaluated()
        rows = {key: value for key, value in before.items() if value.ndim and value.shape[0] == batch.size}
        if not rows:
            raise NotTriedError("no output has a row for each sample")
        change = difference(rows, subject.evaluated(inputs=turned))
        if change > _NOTHING:
            return self.ok(f"with other samples the outputs change by {change:.2g} of the largest")
        return self.fault(f"with other samples the outputs change by {change:.1g} of the largest")
