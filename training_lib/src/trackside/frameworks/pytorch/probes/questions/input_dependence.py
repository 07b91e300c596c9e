"""output-depends-on-input: other samples give other outputs."""

from __future__ import annotations

from trackside.contracts.check import Answer
from trackside.frameworks.pytorch.probes.probe import DoesNotApplyError, Probe
from trackside.frameworks.pytorch.probes.rows import batch_with_rows
from trackside.frameworks.pytorch.probes.subject import Subject, difference

_NOTHING = 1e-6  # of the largest output


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
        if change > _NOTHING:
            return self.ok(f"with other samples the outputs change by {change:.2g} of the largest")
        program = subject.program
        in_training = difference(subject.trained(program).outputs, subject.trained(program, inputs=turned).outputs)
        if in_training > _NOTHING:  # running statistics may follow the training slowly
            return self.ok(f"with other samples the outputs change by {in_training:.2g} of the largest, in training")
        return self.fault(f"with other samples the outputs change by {change:.1g} of the largest")
