"""Where a training lies: its run, its outcome, written last, and judgements that hold as long as the code that judges.

A training counts once its outcome is written, so that a corpus may be ended and gone on with at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trackside
from benchmarks.engine.documents import from_document, write_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OUTCOME = "outcome.json"
RUN = "run"
# The packages that decide on verdicts.
JUDGING = (
    "rules",
    "speed",
    "language",
    "presets",
    "evidence",
    "situation",
    "evaluation",
    "trial",
    "records",
    "contracts",
    "diagnosis",
)
_LIBRARY = Path(trackside.__file__).parent
_Judged = TypeVar("_Judged", bound="DataclassInstance")


class Training(Protocol):
    """A training of any source."""

    @property
    def name(self) -> str:
        """Unique among those that are trained together."""

    def folder(self, root: Path) -> Path:
        """Return its folder, which may not exist."""


_Training = TypeVar("_Training", bound=Training)


@dataclass(frozen=True)
class Outcome:
    """The end of a training.

    status       0 if it came to its end; a training that failed has no place in the figures
    score        by data that the program never saw, the higher the better; None where none is known, or finite
    seconds      processor time; with `trackside run` of imports and evaluator too
    error        the exception in which it ended
    by           `trackside run`, or `fork` for a process with the libraries imported already
    effect_step  the optimizer step from which a planted fault acts; None for a clean run
    size_bytes   size of the run on the disk
    """

    status: int = 0
    score: float | None = None
    seconds: float = 0.0
    error: str = ""
    by: str = "fork"
    effect_step: int | None = None
    size_bytes: int = 0

    def write(self, folder: Path) -> None:
        """Store the outcome, after all else in its folder."""
        write_json(folder / OUTCOME, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """Return the outcome, or None for a training that was not made, or not to its end."""
        try:
            document = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in document.items() if name in known})


def stored_of(chosen: Sequence[_Training], root: Path) -> list[tuple[_Training, Path]]:
    """Return the trainings that came to their end, each with its folder, in the order given."""
    found = ((each, each.folder(root)) for each in chosen)
    return [(each, folder) for each, folder in found if (end := Outcome.read(folder)) is not None and end.status == 0]


def missing_of(chosen: Sequence[_Training], root: Path) -> list[_Training]:
    """Return the trainings that were not made, or not to their end."""
    return [each for each in chosen if Outcome.read(each.folder(root)) is None]


def judged_once(path: Path, kind: type[_Judged], judge: Callable[[], _Judged]) -> _Judged:
    """Return the judgement kept in a file, if code and training are the same; else judge, and keep that.

    Args:
        path: File of the judgement, beside the outcome.
        kind: Dataclass of the judgement.
        judge: Judges the run.
    """
    key = f"{code_digest()} {(path.parent / OUTCOME).stat().st_mtime_ns}"
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if document["key"] == key:
            return from_document(kind, document["judged"])
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or of another form
        pass
    found = judge()
    write_json(path, {"key": key, "judged": asdict(found)})
    return found


@cache
def code_digest() -> str:
    """Return a digest of all that decides on verdicts: rules, evaluation, reading and learned weights."""
    digest = hashlib.sha256(b"2")
    for package in JUDGING:
        for path in sorted([*(_LIBRARY / package).rglob("*.py"), *(_LIBRARY / package).rglob("*.json")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
