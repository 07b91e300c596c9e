"""The result of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trackside.contracts.errors import RecordError
from trackside.contracts.run.learning import Learning
from trackside.contracts.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Summary:
    """The result of an evaluation.

    verdicts     all verdicts of the run, including those of earlier evaluators of the same run
    judged       the number of judged steps, by configuration
    last_step    the newest judged step; -1 for none
    has_ended    False if the evaluator stopped before the end of the run
    crashed      configurations with a rule that raised
    refused      configurations with code that is not run here
    undelivered  verdicts that some sink did not take
    damaged      errors of records that could not be read
    learning     what the run has learned by its end; None before, or if it could not be read
    """

    verdicts: tuple[Verdict, ...]
    judged: Mapping[str, int]
    last_step: int
    has_ended: bool
    crashed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    undelivered: tuple[Verdict, ...] = ()
    damaged: tuple[RecordError, ...] = ()
    learning: Learning | None = None

    @property
    def issues(self) -> tuple[Verdict, ...]:
        """The verdicts with an issue."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is Outcome.ISSUE_FOUND)
