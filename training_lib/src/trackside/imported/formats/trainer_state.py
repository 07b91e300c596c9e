"""`trainer_state.json`, which the Trainer of transformers writes into each checkpoint.

{"global_step": 500, "log_history": [{"epoch": 0.1, "loss": 2.3, "learning_rate": 5e-05, "step": 10}, ...]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trackside.imported.format import Format, Groups
from trackside.imported.log import Log, LogFile, Series

MOST_BYTES = 256 << 20
_CHECKPOINT = re.compile(r"(^|/)checkpoint-\d+$")


def _is_ours(file: LogFile) -> bool:
    return file.name.rpartition("/")[2] == "trainer_state.json" or b'"log_history"' in file.head()[:4096]


def _group(files: Sequence[LogFile]) -> Groups:
    """Return the files of each training: its checkpoints lie side by side."""
    found: Groups = {}
    for file in files:
        folder = _CHECKPOINT.sub("", file.name.rpartition("/")[0])
        found.setdefault(folder or ".", []).append(file)
    return found


def _read(name: str, files: Sequence[LogFile], _: Series) -> Iterable[Log]:
    """Yield the longest history of the checkpoints: each holds those before it."""
    series, source = Series(), files[0]
    best: Mapping[str, Any] = {}
    for file in files:
        document = _document(file, series)
        if document is not None and _last_step(document) >= _last_step(best):
            best, source = document, file
    for row in best.get("log_history", ()):
        if isinstance(row, dict) and "train_runtime" not in row:  # a summary of the whole training
            _add(series, row)
    folder = _CHECKPOINT.sub("", source.where.replace("\\", "/").rpartition("/")[0]).rpartition("/")[2]
    own = folder or source.name if name == "." else name
    yield Log(
        own, source.where, FORMAT.name, series.points(), has_steps=True, hides_nan=True, damage=tuple(series.damage)
    )


def _document(file: LogFile, series: Series) -> Mapping[str, Any] | None:
    if file.size > MOST_BYTES:
        series.note(f"{file.name} has {file.size:,} bytes, more than the {MOST_BYTES >> 20} MiB that are read")
        return None
    try:
        found = json.loads(b"".join(file.chunks()))
    except ValueError as error:
        series.note(f"{file.name} is no whole JSON: {error}")
        return None
    if not isinstance(found, dict) or not isinstance(found.get("log_history"), list):
        series.note(f"{file.name} has no list `log_history`")
        return None
    return found


def _last_step(document: Mapping[str, Any]) -> int:
    step = document.get("global_step", -1)
    return step if isinstance(step, int) else -1


def _add(series: Series, row: Mapping[str, Any]) -> None:
    step = row.get("step")
    if not isinstance(step, int) or step < 0:
        series.note(f"a row of the history has no step: {str(row)[:80]}")
        return
    for name, value in _numbers(row):
        if name != "step" and (own := series.of(name)) is not None:
            own.add(step, value)


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)


FORMAT = Format("trainer_state.json of transformers", 20, _is_ours, _read, _group)
