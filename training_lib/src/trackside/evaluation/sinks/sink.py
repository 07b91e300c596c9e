"""What a sink is: it takes verdicts, or says which of them it could not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trackside.contracts.errors import TracksideError
from trackside.contracts.verdict import Verdict


class UndeliveredError(TracksideError):
    """Some verdicts did not arrive; trying again later may help."""

    def __init__(self, reason: str, undelivered: Sequence[Verdict]) -> None:
        self.undelivered = tuple(undelivered)
        super().__init__(reason)


class Sink(Protocol):
    """A verdict may be handed over more than once (after a crash, after an outage): the same id is the same verdict.

    `name` is stored with what is still to be delivered, so that a restarted evaluator finds the sink again.
    """

    @property
    def name(self) -> str:
        """The sink's name, unique among the sinks of an evaluator."""

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Hands the verdicts over. Errors: `UndeliveredError` with those that did not arrive."""
