"""The record of what a run has learned by its end, whatever rules found: `learning.json` beside the verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.contracts.run.last_losses import LastLosses
from trackside.contracts.stored_fields import COUNT, TEXT, StoredDocument, nullable, record, stored


@dataclass(frozen=True)
class Learning(StoredDocument):
    """The result of a training, apart from the verdicts of rules.

    level           the level of its last training losses or of held-out scores, a clause; "" if it beat a constant
                    answer, or nobody can tell
    zero_gradients  weights whose gradient was exactly zero all along, a clause; "" for none
    faults          the faults that probes of a rehearsal found, a clause; "" for none
    skipped         the steps that were skipped, a clause without blame; "" for none
    ran_out         the limit that ended it before it had converged, a clause without blame; "" for none
    rested          number of training steps of the first worker that were not watched
    losses          the last losses; None if they are not known
    """

    document_name = "What the run has learned"

    level: str = field(default="", metadata=stored(TEXT))
    zero_gradients: str = field(default="", metadata=stored(TEXT))
    faults: str = field(default="", metadata=stored(TEXT, optional=True))
    skipped: str = field(default="", metadata=stored(TEXT, optional=True))
    ran_out: str = field(default="", metadata=stored(TEXT, optional=True))
    rested: int = field(default=0, metadata=stored(COUNT, optional=True))
    losses: LastLosses | None = field(
        default=None, compare=False, metadata=stored(nullable(record(LastLosses)), optional=True)
    )

    @property
    def clauses(self) -> Iterator[str]:
        """The clauses that stand against the run."""
        yield from filter(None, (self.level, self.zero_gradients, self.faults))

    @property
    def notes(self) -> Iterator[str]:
        """The clauses without blame."""
        yield from filter(None, (self.skipped, self.ran_out))

    @property
    def word(self) -> str:
        """The gravest of them in a list, `not better than guessing`; "" for none."""
        words = (
            (self.faults, "faults in the rehearsal"),
            (self.level, "not better than guessing"),
            (self.zero_gradients, "gradients of zero"),
        )
        return next((word for clause, word in words if clause), "")
