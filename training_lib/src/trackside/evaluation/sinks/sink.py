"""The protocol of sinks: take verdicts, or raise an error with the ones not taken."""

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
    """A destination of verdicts.

    A verdict may be handed over more than once, after a crash or an outage: the same id is the same verdict. `name` is
    stored with the undelivered verdicts, so that a restarted evaluator finds the sink again.
    """

    @property
    def name(self) -> str:
        """The sink's name, unique among the sinks of an evaluator."""

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Deliver the verdicts. Errors: `UndeliveredError` with the ones that did not arrive."""
