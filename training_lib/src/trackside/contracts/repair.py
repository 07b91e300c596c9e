"""The repair of a problem: the line to look at, the observed value and the expected one, and the smallest change."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from trackside.contracts.stored_fields import COUNT, NUMBER, TEXT, choice, nullable, record, records, stored


class PlaceKind(str, Enum):
    """The origin of a place.

    RECORDED  the run recorded the line that made the subject of the finding
    SEARCHED  the script has one call of the kind that the likeliest cause names
    """

    RECORDED = "recorded"
    SEARCHED = "searched"


@dataclass(frozen=True)
class Place:
    """A line of the user's own files."""

    file: str = field(metadata=stored(TEXT, "The file, relative to the folder of the script."))
    line: int = field(metadata=stored(COUNT, "The number of the line, from 1."))
    text: str = field(
        default="",
        metadata=stored(TEXT, "The line, without its indentation; empty if the file is gone or has changed."),
    )
    kind: PlaceKind = field(
        default=PlaceKind.RECORDED,
        metadata=stored(
            choice(PlaceKind),
            "`recorded` by the run, or `searched`: the one call in the script that the likeliest cause is about.",
        ),
    )


@dataclass(frozen=True)
class Edit:
    """A line of a file, and the text in its place."""

    line: int = field(metadata=stored(COUNT, "The number of the line, from 1, before any of the changes."))
    old: str = field(metadata=stored(TEXT, "The whole line."))
    new: str = field(metadata=stored(TEXT, "The text in its place, of one line or more; empty to leave the line out."))


@dataclass(frozen=True)
class Repair:
    """All that an editor of the script needs of a problem."""

    place: Place | None = field(
        default=None, metadata=stored(nullable(record(Place)), "The line to look at; null if none is known.")
    )
    subject: str = field(default="", metadata=stored(TEXT, "The subject of the leading finding."))
    measure: str = field(default="", metadata=stored(TEXT, "What was measured, and its unit."))
    observed: float | None = field(default=None, metadata=stored(nullable(NUMBER), "The measured value."))
    relation: str = field(default="", metadata=stored(TEXT, "`<` or `>`: how it stands to the expected one."))
    expected: float | None = field(
        default=None,
        metadata=stored(nullable(NUMBER), "The limit that it crosses: a sound run stays on its other side."),
    )
    setting: str = field(default="", metadata=stored(TEXT, "The setting to change, `lr`; empty if it is no number."))
    value: float | None = field(default=None, metadata=stored(nullable(NUMBER), "Its value in this run."))
    proposed: float | None = field(default=None, metadata=stored(nullable(NUMBER), "The value to try first."))
    change: str = field(default="", metadata=stored(TEXT, "The smallest change, a sentence; empty if none is known."))
    edits: tuple[Edit, ...] = field(
        default=(),
        metadata=stored(records(Edit), "The change as lines of the file of `place`; empty where it is not settled."),
    )
