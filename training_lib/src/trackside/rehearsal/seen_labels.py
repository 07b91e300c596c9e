"""The labels of the losses of a rehearsal: how many, and whether they are all the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from trackside.rehearsal.step_program import StepProgram


@dataclass(frozen=True)
class Span:
    """Some labels.

    count    number of labels
    lowest   lowest one
    highest  highest one
    """

    count: int = 0
    lowest: float = 0
    highest: float = 0

    @property
    def is_single(self) -> bool:
        """True if all labels are the same."""
        return self.count > 0 and self.lowest == self.highest

    def including(self, labels: torch.Tensor) -> Span:
        """Return the span of these labels and more of them."""
        if not labels.numel():
            return self
        lowest, highest = labels.min().item() + 0, labels.max().item() + 0  # no zero with a sign
        if self.count:
            lowest, highest = min(self.lowest, lowest), max(self.highest, highest)
        return Span(self.count + labels.numel(), lowest, highest)


@dataclass(frozen=True)
class SeenLabels:
    """The labels so far.

    classes  of cross entropies; those below zero are left out: they stand for places that do not count
    numbers  of errors, as a squared one
    """

    classes: Span = field(default_factory=Span)
    numbers: Span = field(default_factory=Span)

    def and_those_of(self, program: StepProgram) -> SeenLabels:
        """Return these labels and those of one more loss."""
        seen = self
        for call in program.calls:
            for labels in call.constants() if call.is_cross_entropy or call.is_error else ():
                if call.is_error:
                    seen = replace(seen, numbers=seen.numbers.including(labels))
                elif not labels.is_floating_point():
                    seen = replace(seen, classes=seen.classes.including(labels[labels >= 0]))
        return seen
