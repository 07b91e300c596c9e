"""A report of a process that a run should have captured and did not: the signs of training that it showed."""

from __future__ import annotations

from dataclasses import dataclass, field

from trackside.contracts.stored_fields import COUNT, TEXT, TEXTS, StoredDocument, stored

VERSION = 1


@dataclass(frozen=True)
class UncapturedProcess(StoredDocument):
    """The signs of training in a process that has captured nothing."""

    document_name = "The report of an uncaptured process"
    document_version = VERSION

    program: str = field(default="", metadata=stored(TEXT, "Its script."))
    frameworks: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Frameworks that it imported."))
    error: str = field(default="", metadata=stored(TEXT, "Type of the exception that ended it."))
    backward_passes: int = field(default=0, metadata=stored(COUNT, "Backward passes of PyTorch."))
    optimizers: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Classes of the optimizers that it made."))
    manual_update: str = field(
        default="",
        metadata=stored(TEXT, "The line of the backward pass before which weights had changed without an optimizer."),
    )
