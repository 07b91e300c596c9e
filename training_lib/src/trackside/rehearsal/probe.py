"""The form of a probe: a question about the model and the step at the end of a rehearsal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from trackside.contracts.run.check import Answer, Outcome
from trackside.rehearsal.subject import Subject


class NotTriedError(Exception):
    """A probe cannot be tried on this script; the message is the reason."""


class DoesNotApplyError(Exception):
    """A probe has nothing to try on this script; the message is the reason."""


class Probe(ABC):
    """A question with its answer.

    name           its name, in words with hyphens
    place          its place in the order of probes: the quick ones first
    what           the fault that it finds, in one sentence
    cures          steps that cure the fault
    needs_numbers  True if it has nothing to compare in a model whose loss is no number any more
    """

    name: ClassVar[str]
    place: ClassVar[int]
    what: ClassVar[str]
    cures: ClassVar[tuple[str, ...]]
    needs_numbers: ClassVar[bool] = False

    @abstractmethod
    def answer(self, subject: Subject) -> Answer:
        """Return the answer. All that it changes in the models is undone afterwards.

        Raises:
            NotTriedError: It cannot be tried here.
            DoesNotApplyError: Nothing here is of its kind.
        """

    def ok(self, observed: str) -> Answer:
        """Return the answer that all is well."""
        return Answer(self.name, Outcome.OK, observed)

    def fault(self, observed: str, *, where: str = "", what: str = "", cures: tuple[str, ...] = ()) -> Answer:
        """Return the answer that a fault was found."""
        return Answer(self.name, Outcome.FAULT, observed, where, what or self.what, cures or self.cures)
