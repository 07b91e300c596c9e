"""The labels of the cross entropies of a rehearsal: how many, and whether they are all of one class."""

from __future__ import annotations

from dataclasses import dataclass

from trackside.frameworks.pytorch.probes.step_program import StepProgram


@dataclass(frozen=True)
class SeenLabels:
    """The labels so far. Those below zero are left out: they stand for places that do not count.

    count    number of labels
    lowest   lowest class
    highest  highest class
    """

    count: int = 0
    lowest: int = 0
    highest: int = 0

    @property
    def is_single(self) -> bool:
        """True if all labels are of one class."""
        return self.count > 0 and self.lowest == self.highest

    def and_those_of(self, program: StepProgram) -> SeenLabels:
        """Return these labels and those of one more loss."""
        seen = self
        for call in program.calls:
            for labels in call.constants() if call.is_cross_entropy else ():
                counted = labels[labels >= 0] if not labels.is_floating_point() else labels[:0]
                if counted.numel():
                    seen = seen._with(counted.numel(), int(counted.min()), int(counted.max()))
        return seen

    def _with(self, count: int, lowest: int, highest: int) -> SeenLabels:
        if not self.count:
            return SeenLabels(count, lowest, highest)
        return SeenLabels(self.count + count, min(self.lowest, lowest), max(self.highest, highest))
