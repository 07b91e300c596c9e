"""The random numbers of a rehearsal: whether each step draws new ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trackside.frameworks.pytorch.ground.random_state import RandomState


@dataclass(frozen=True)
class SeenDraws:
    """The random states of PyTorch at the steps so far.

    steps     number of steps
    drawing   number of steps in which numbers were drawn from the model's first call on
    repeated  number of steps that began in the state of the one before, which had drawn numbers
    begin     the state at the model's first call of the newest step
    """

    steps: int = 0
    drawing: int = 0
    repeated: int = 0
    begin: RandomState | None = None
    has_drawn: bool = False

    def and_step(self, begin: RandomState, end: RandomState) -> SeenDraws:
        """Return these states and those of one more step."""
        has_drawn = not _are_equal(begin, end)
        is_again = self.has_drawn and self.begin is not None and _are_equal(self.begin, begin)
        return SeenDraws(self.steps + 1, self.drawing + has_drawn, self.repeated + is_again, begin, has_drawn)


def _are_equal(one: RandomState, other: RandomState) -> bool:
    states = (one.of_torch, *one.of_devices), (other.of_torch, *other.of_devices)
    return len(states[0]) == len(states[1]) and all(map(torch.equal, *states))
