"""The messages between a training that may be started again and the program beside it, and the marks of its batches.

<run>/restart/worker_0.json   what this process has met since it was started: `Report`
<run>/restart/ended_worker_0.json   the same, as this process ended: where a fault that a rule found may lie
<run>/restart/order.json      what the next process is to leave out and to change: `Order`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from trackside.contracts.stored_fields import (
    BOOLEAN,
    COUNT,
    FINITE,
    INTEGER,
    TEXT,
    TEXTS,
    Kind,
    StoredDocument,
    choice,
    nullable,
    records,
    stored,
)

RESTART = "restart"
ORDER_KEY, ENDED_PREFIX = "order.json", "ended_"
MOST_ROWS = 1 << 17  # left out in one run: more are no matter of some batches
_ROWS = Kind(
    {"type": "array", "items": {"type": "integer"}}, lambda fields, name, absent: fields.integers(name, absent), list
)


class Met(str, Enum):
    """The event that a training process reports."""

    FAULT = "fault"
    CONFIRMED = "confirmed"
    UNLIKE = "unlike"
    ENDED = "ended"


@dataclass(frozen=True)
class LeftOut(StoredDocument):
    """Rows of one data set that are not to be trained on."""

    data: str = field(metadata=stored(TEXT, "The data set: its class and length, and the class of its sampler."))
    rows: tuple[int, ...] = field(default=(), metadata=stored(_ROWS, "Numbers of rows, as the sampler gives them."))


@dataclass(frozen=True)
class Report(StoredDocument):
    """The newest report of a training process."""

    met: Met = field(metadata=stored(choice(Met), "What it met."))
    process: int = field(default=0, metadata=stored(INTEGER, "Its id."))
    first_step: int = field(default=0, metadata=stored(COUNT, "First step of the run in which the fault may lie."))
    at_step: int = field(default=0, metadata=stored(COUNT, "Training steps that had ended when it was met."))
    cause: str = field(default="", metadata=stored(TEXT, "Kind of the fault."))
    evidence: str = field(default="", metadata=stored(TEXT, "Numbers that show it, a clause."))
    refusal: str = field(default="", metadata=stored(TEXT, "Why going back does not cure it, a clause; empty: it may."))
    is_of_batch: bool = field(default=False, metadata=stored(BOOLEAN, "True if its batches may be the cause."))
    usual_loss: float | None = field(default=None, metadata=stored(nullable(FINITE), "Largest usual loss before it."))
    most_rate: float = field(default=0.0, metadata=stored(FINITE, "Largest rate before it, if that is its kind."))
    most_gradient: float = field(default=0.0, metadata=stored(FINITE, "Largest usual norm of gradients before it."))
    left_out: tuple[LeftOut, ...] = field(default=(), metadata=stored(records(LeftOut), "Rows of its batches."))
    marks: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Marks of its batches in `trackside.skipping`."))


@dataclass(frozen=True)
class Order(StoredDocument):
    """The rows and batches that a process started again is to leave out, and the changes of its first steps."""

    resume_from: str = field(metadata=stored(TEXT, "The newest checkpoint that is good."))
    aliases: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Files in whose place it was put."))
    undone_steps: int = field(default=0, metadata=stored(COUNT, "Steps between that and the fault."))
    usual_loss: float | None = field(default=None, metadata=stored(nullable(FINITE), "Largest usual loss before it."))
    most_rate: float = field(default=0.0, metadata=stored(FINITE, "Largest rate for the first steps; 0: any."))
    most_gradient: float = field(default=0.0, metadata=stored(FINITE, "Largest norm of gradients for them; 0: any."))
    is_again: bool = field(default=False, metadata=stored(BOOLEAN, "True if an earlier start failed: half the rate."))
    left_out: tuple[LeftOut, ...] = field(default=(), metadata=stored(records(LeftOut), "Rows to leave out."))
    marks: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Marks of batches to leave out."))


def merged(parts: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Return the rows of each data set together, in ascending order, at most `MOST_ROWS` of one."""
    rows: dict[str, set[int]] = {}
    for part in parts:
        rows.setdefault(part.data, set()).update(part.rows)
    return tuple(LeftOut(data, tuple(sorted(some)[:MOST_ROWS])) for data, some in rows.items())
