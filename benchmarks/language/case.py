"""A program of the corpus: a sound training of a language model, or one with a planted mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TUNE, REPORT = "tune", "report"


@dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
        name: Its name.
        half: TUNE if rules may be changed by what is seen of it; REPORT if nobody reads its runs.
        train: Trains with a seed; returns the true score at the end, 0 to 1, or None where there is none.
        causes: Causes that name the mistake, any of them; () for a sound training.
        needs: Module that the program imports: "trl", or "" for PyTorch alone.
    """

    name: str
    half: str
    train: Callable[[int], float | None]
    causes: tuple[str, ...] = ()
    needs: str = ""

    @property
    def is_sound(self) -> bool:
        """True for a training without a mistake."""
        return not self.causes
