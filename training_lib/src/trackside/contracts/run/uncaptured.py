"""A report of a process that a run should have captured and did not: the signs of training that it showed."""

from __future__ import annotations

from dataclasses import dataclass, field

from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.stored_fields import COUNT, TEXT, TEXTS, document_of, record_of, stored

VERSION = 1


@dataclass(frozen=True)
class UncapturedProcess:
    """The signs of training in a process that has captured nothing."""

    program: str = field(default="", metadata=stored(TEXT, "Its script."))
    frameworks: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Frameworks that it imported."))
    error: str = field(default="", metadata=stored(TEXT, "Type of the exception that ended it."))
    backward_passes: int = field(default=0, metadata=stored(COUNT, "Backward passes of PyTorch."))
    optimizers: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Classes of the optimizers that it made."))
    manual_update: str = field(
        default="",
        metadata=stored(TEXT, "The line of the backward pass before which weights had changed without an optimizer."),
    )

    def to_json(self) -> str:
        """Return one line of JSON."""
        return to_json({"version": VERSION, **document_of(self)})

    @classmethod
    def from_json(cls, text: str | bytes) -> UncapturedProcess:
        """Return the report in a text of `to_json`. Errors: `ConfigurationError`."""
        subject = "The report of an uncaptured process"
        fields = Fields(parse_json(text, subject=subject), where="")
        report = record_of(cls, fields)
        fields.finish(subject=subject)
        return report
