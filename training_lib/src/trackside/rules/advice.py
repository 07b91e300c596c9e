"""Advice of rules, and the programs that it is for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from trackside.contracts.model_facts import BOOSTED, ESTIMATORS, ProgramFacts
from trackside.contracts.observations import CLIPPINGS


class Concerns(Enum):
    """The programs that a piece of advice is for, by what was observed of them.

    LOOPS            programs with optimizer steps, backward passes and layers: all but boosted trees and estimators
    UNCLIPPED_LOOPS  those of them that do not clip gradients
    TREES            boosted trees
    """

    LOOPS = "loops"
    UNCLIPPED_LOOPS = "unclipped loops"
    TREES = "trees"


@dataclass(frozen=True)
class Advice:
    """A sentence of advice that is not for every program.

    text      the sentence
    concerns  the programs that it is for
    """

    text: str
    concerns: Concerns

    def __str__(self) -> str:
        return self.text

    def fits(self, program: ProgramFacts) -> bool:
        """Return True for a program that the advice is for.

        Args:
            program: The facts about the program.
        """
        if self.concerns is Concerns.TREES:
            return program.framework in BOOSTED
        if self.concerns is Concerns.UNCLIPPED_LOOPS and CLIPPINGS.of(program):
            return False
        return program.framework not in BOOSTED | ESTIMATORS
