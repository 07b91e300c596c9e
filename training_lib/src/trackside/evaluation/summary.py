"""What an evaluation came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trackside.contracts.errors import RecordError
from trackside.contracts.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Summary:
    """What an evaluation came to.

    `verdicts` are all of the run so far, those of earlier evaluators of the same run included. `judged` counts the
    steps each configuration judged. `has_ended` is False where the evaluator was stopped before the run had ended.
    `crashed` names the configurations whose rule raised, `refused` those whose code is not run here, `undelivered` the
    verdicts that some sink did not take.
    """

    verdicts: tuple[Verdict, ...]
    judged: Mapping[str, int]
    last_step: int
    has_ended: bool
    crashed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    undelivered: tuple[Verdict, ...] = ()
    damaged: tuple[RecordError, ...] = ()

    @property
    def issues(self) -> tuple[Verdict, ...]:
        """The verdicts that found something."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is Outcome.ISSUE_FOUND)
