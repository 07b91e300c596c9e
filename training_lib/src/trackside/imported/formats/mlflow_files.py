"""MLflow's store of files, `mlruns/<experiment>/<run>/metrics/<name>`: a line `milliseconds value step` a point."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from trackside.imported.format import Format, Groups
from trackside.imported.log import Log, LogFile, Series

_LINE = re.compile(rb"\d{10,16} \S{1,32}( -?\d{1,18})?\r?\n")
_FOLDER, _FACTS = "/metrics/", "meta.yaml"
_NAME = re.compile(rb"^run_name: (\S.{0,200})$", re.MULTILINE)


def _is_ours(file: LogFile) -> bool:
    if file.name.endswith(f"/{_FACTS}"):
        return _NAME.search(file.head()) is not None
    return _FOLDER in f"/{file.name}" and _LINE.match(file.head()) is not None


def _group(files: Sequence[LogFile]) -> Groups:
    found: Groups = {}
    for file in files:
        run = f"/{file.name}".partition(_FOLDER)[0].removesuffix(f"/{_FACTS}").strip("/")
        found.setdefault(run or ".", []).append(file)
    return found


def _read(name: str, files: Sequence[LogFile], _: Series) -> Iterable[Log]:
    series, own, source = Series(), name.rpartition("/")[2], files[0].where.rpartition("/")[0]
    for file in files:
        if file.name.endswith(f"/{_FACTS}"):
            own = _named(file) or own
            continue
        source = file.where.rpartition(_FOLDER)[0]
        _add(series, f"/{file.name}".partition(_FOLDER)[2], file)
    yield log_of(own, source, FORMAT.name, series)


def _named(file: LogFile) -> str:
    found = _NAME.search(file.head())
    return found[1].decode("utf-8", "replace").strip("'\" \r") if found else ""


def _add(series: Series, name: str, file: LogFile) -> None:
    rows = []
    for number, line in enumerate(b"".join(file.chunks()).splitlines(), 1):
        parts = line.split()
        try:
            rows.append((float(parts[0]) / 1000, float(parts[1]), int(parts[2]) if len(parts) > 2 else number))
        except (ValueError, IndexError):
            series.note(f"line {number} of {file.name} is no point: {line[:60].decode(errors='replace')!r}")
    if rows:
        times, values, steps = zip(*rows, strict=True)
        series.extend(name, steps, values, times)


def log_of(name: str, source: str, form: str, series: Series) -> Log:
    """Return the log of a run of MLflow. Where no step was ever named, all are 0: then the points are counted."""
    points = series.points()
    has_steps = any(len(np.unique(own.steps)) > 1 for own in points.values())
    if not has_steps:
        points = {key: own.numbered() for key, own in points.items()}
    return Log(name, source, form, points, has_steps=has_steps, damage=tuple(series.damage))


FORMAT = Format("MLflow's files", 40, _is_ours, _read, _group)
