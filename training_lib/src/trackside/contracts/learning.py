"""The record of what a run has learned by its end, whatever rules found: `learning.json` beside the verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.stored_fields import TEXT, document_of, record_of, stored


@dataclass(frozen=True)
class Learning:
    """The result of a training, apart from the verdicts of rules.

    level           the level of its last training losses, a clause; "" if it beat a constant answer, or nobody can tell
    zero_gradients  weights whose gradient was exactly zero all along, a clause; "" for none
    """

    level: str = field(default="", metadata=stored(TEXT))
    zero_gradients: str = field(default="", metadata=stored(TEXT))

    @property
    def clauses(self) -> Iterator[str]:
        """The clauses for users."""
        yield from filter(None, (self.level, self.zero_gradients))

    def to_json(self) -> str:
        """Return the document."""
        return to_json(document_of(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Learning:
        """Return the result of `to_json` again. Errors: `ConfigurationError`."""
        subject = "What the run has learned"
        fields = Fields(parse_json(text, subject=subject), where="")
        found = record_of(cls, fields)
        fields.finish(subject=subject)
        return found
