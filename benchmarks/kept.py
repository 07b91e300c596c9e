"""Files beside a stored run: the outcome of its training, and judgements that hold as long as the code that judges.

A training counts once its outcome is written, so that a corpus may be ended and gone on with at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trackside

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OUTCOME = "outcome.json"
JUDGING = ("rules", "evaluation", "trial", "records", "contracts", "diagnosis")  # the packages that decide on verdicts
_LIBRARY = Path(trackside.__file__).parent
_Judged = TypeVar("_Judged")
_Outcome = TypeVar("_Outcome", bound="DataclassInstance")


def write_json(path: Path, document: object) -> None:
    """Write a document whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(document), encoding="utf-8")
    os.replace(partial, path)


def write_outcome(outcome: DataclassInstance, folder: Path) -> None:
    """Store the outcome of a training, after all else in its folder."""
    write_json(folder / OUTCOME, asdict(outcome))


def read_outcome(kind: type[_Outcome], folder: Path) -> _Outcome | None:
    """Return the outcome of a training, or None for one that was not made, or not to its end."""
    try:
        return kind(**json.loads((folder / OUTCOME).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def judged_once(
    path: Path,
    judge: Callable[[], _Judged],
    *,
    to_document: Callable[[_Judged], dict[str, Any]],
    from_document: Callable[[dict[str, Any]], _Judged],
) -> _Judged:
    """Return the judgement kept in a file, if code and training are the same; else judge, and keep that.

    Args:
        path: File of the judgement, beside the outcome.
        judge: Judges the run.
        to_document: Makes JSON values of a judgement.
        from_document: Makes a judgement of them. A `KeyError`, `TypeError` or `ValueError` means another form.
    """
    key = f"{code_digest()} {(path.parent / OUTCOME).stat().st_mtime_ns}"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["key"] == key:
            return from_document(document["judged"])
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or of another form
        pass
    found = judge()
    write_json(path, {"key": key, "judged": to_document(found)})
    return found


@cache
def code_digest() -> str:
    """Return a digest of all that decides on verdicts: rules, evaluation, reading and learned weights."""
    digest = hashlib.sha256(b"2")
    for package in JUDGING:
        for path in sorted([*(_LIBRARY / package).rglob("*.py"), *(_LIBRARY / package).rglob("*.json")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
