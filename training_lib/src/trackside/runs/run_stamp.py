"""A mark of the files from which a run is summarized: where it is the same, nothing needs to be read again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    INDEX_PREFIX,
    LEARNING_KEY,
    PROGRESS_KEY,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    TENSORS,
    VERDICTS_KEY,
)
from trackside.runs.run_folder import RECORD_FILE

SETTLED_SECONDS = (
    2.0  # a change within the tick of a file system's clock leaves the moment as it was; the longest is 2 s
)

Stamp = tuple[tuple[str, int, int, int], ...]  # path, file number, bytes, moment of the last change


def files_of(folder: Path) -> dict[str, list[int]]:
    """Return size and moment of the last change of the files that a summary is made of, by their paths below a run.

    Without file numbers, so that a copy that keeps the moments is the same.

    Args:
        folder: The run's folder.
    """
    return {path: [size, changed] for path, _, size, changed in _stamps(folder)}


def summary_stamp(folder: Path, *, now: float) -> Stamp | None:
    """Return the stamp of the files that a summary is made of; None if they changed a moment ago.

    Args:
        folder: The run's folder.
        now: Seconds since the epoch.
    """
    found = tuple(sorted(_stamps(folder)))
    is_settled = all(now - changed / 1e9 >= SETTLED_SECONDS for _, _, _, changed in found)
    return found if is_settled else None


def _stamps(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    index = folder / TENSORS / INDEX_PREFIX
    separate = (place / VERDICTS_KEY for place in _folders(folder / RULE_OUTPUT))
    judged = (folder / RULE_OUTPUT / name for name in (VERDICTS_KEY, PROGRESS_KEY, LEARNING_KEY))
    files = (*judged, folder / RULE_REQUEST_KEY, folder / RECORD_FILE, folder / TENSORS / END_MARKER_KEY)
    # A step is a new file in a folder below the index, and changes that folder.
    for path in (*files, *separate, index, *_folders(index)):
        try:
            status = path.stat()
        except OSError:  # not there, or not to be read: a stamp without it
            continue
        yield str(path.relative_to(folder)), status.st_ino, status.st_size, status.st_mtime_ns


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
    except OSError:
        return []
