"""The logs at a location, whatever their formats."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from trackside.contracts.errors import ConfigurationError, Problem, RunNotFoundError, TracksideError
from trackside.contracts.run_layout import INDEX_PREFIX, STATISTICS, TENSORS
from trackside.imported import formats
from trackside.imported.files import WHAT_IS_READ, files_at
from trackside.imported.format import PRINTED, Format
from trackside.imported.log import Log, LogFile, Series
from trackside.imported.names import meanings_of
from trackside.imported.numbering import NumberedLog, numbered


class NoLossError(ConfigurationError):
    """No number of a log is known to be a loss, so far."""


@dataclass
class LeftOut:
    """Logs and files that are not judged.

    without_loss  logs without a loss among their numbers, by name
    others        number of files that are no logs
    """

    without_loss: dict[str, Log] = field(default_factory=dict)
    others: int = 0

    def add(self, log: Log, *, is_general: bool) -> None:
        """Add a log without a loss. Of a format that any text may have it is no log."""
        if is_general:
            self.others += 1
        else:
            self.without_loss[log.name] = log


@cache
def all_formats() -> tuple[Format, ...]:
    """Return the formats, in the order in which they are asked."""
    names = [found.name for found in pkgutil.iter_modules(formats.__path__, f"{formats.__name__}.")]
    found = [vars(importlib.import_module(name)).get("FORMAT") for name in names]
    return tuple(sorted((one for one in found if isinstance(one, Format)), key=lambda one: one.order))


class Growing:
    """Logs that grow: what was read of each, so that the next look reads what is new."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], Series] = {}

    def series_of(self, form: str, name: str, files: Sequence[LogFile], *, is_over: bool) -> Series:
        """Return what was read of a log; nothing of one with a file that has become shorter.

        Args:
            form: The format.
            name: The log.
            files: Its files.
            is_over: It grows no more.
        """
        series = self._read.setdefault((form, name), Series())
        if any(file.size < series.ends.get(file.name, 0) for file in files):
            series = self._read[form, name] = Series()
        series.is_over = is_over
        return series


def find_logs(
    location: str,
    columns: Mapping[str, str],
    left_out: LeftOut,
    *,
    growing: Growing | None = None,
    has_ended: bool = True,
) -> Iterator[NumberedLog]:
    """Yield the logs at a location, one after the other: only one is held in memory, unless they grow.

    Args:
        location: A file, a folder or `s3://bucket/prefix`.
        columns: Columns by role, as the user names them.
        left_out: Is filled with what is not judged.
        growing: Keeps what was read for the next look; None: there is none.
        has_ended: The logs grow no more.

    Raises:
        LocationNotFoundError: Nothing is at the location.
        RunNotFoundError: No log is at the location.
        NoLossError: No log has a loss.
        ConfigurationError: The location is a run of our own, or no log has the named columns.
    """
    files = files_at(location)
    _refuse_runs(location, files)
    by_format, others = _by_format(files)
    left_out.others = len(others)
    problems: list[ConfigurationError] = []
    count = 0
    for form, own in by_format.items():
        for name, group in form.group(own).items():
            kept = growing or Growing()
            for log in form.read(name, group, kept.series_of(form.name, name, group, is_over=has_ended)):
                try:
                    found = _numbered(log, columns)
                except ConfigurationError as error:
                    problems.append(error)
                    continue
                if not found.meanings.has_loss:
                    left_out.add(log, is_general=form.is_general and len(files) > 1)
                    continue
                count += 1
                yield found
    if not count:
        raise problems[0] if problems else _nothing(location, files, left_out)


def _numbered(log: Log, columns: Mapping[str, str]) -> NumberedLog:
    sizes = {name: len(points) for name, points in log.series.items()}
    return numbered(log, meanings_of(list(log.series), columns, sizes=sizes))


def _by_format(files: Sequence[LogFile]) -> tuple[dict[Format, list[LogFile]], list[LogFile]]:
    found: dict[Format, list[LogFile]] = {form: [] for form in all_formats()}
    others: list[LogFile] = []
    for file in files:
        form = next((form for form in found if _is_of(form, file, is_alone=len(files) == 1)), None)
        (others if form is None else found[form]).append(file)
    return {form: own for form, own in found.items() if own}, others


def _is_of(form: Format, file: LogFile, *, is_alone: bool) -> bool:
    try:
        return form.is_ours(file) or (is_alone and form.name == PRINTED and file.size > 0)
    except OSError:
        return False


def _refuse_runs(location: str, files: Sequence[LogFile]) -> None:
    for file in files:
        parts = file.name.split("/")
        holder = TENSORS if TENSORS in parts else STATISTICS if file.name.endswith(".tss") else ""
        if holder in parts:
            run = "/".join([location.rstrip("/"), *parts[: parts.index(holder)]])
            raise _is_a_run(location, f"trackside rules run {run}")
        if file.name.startswith(INDEX_PREFIX) and file.name.endswith(".json"):
            raise _is_a_run(location, f"trackside import {location}")


def _is_a_run(location: str, command: str) -> ConfigurationError:
    problem = Problem(location, "holds a run, with more in it than a log.", command)
    return ConfigurationError([problem], subject="The path")


def _nothing(location: str, files: Sequence[LogFile], left_out: LeftOut) -> TracksideError:
    if all(file.size == 0 for file in files):
        count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
        return RunNotFoundError(f"{location} is empty: {count} of 0 bytes.", advice=WHAT_IS_READ)
    if left_out.without_loss:
        log = next(iter(left_out.without_loss.values()))
        shown = ", ".join(list(log.series)[:20]) or "none"
        if not log.series:
            reason = f" {log.damage[0][:1].upper()}{log.damage[0][1:]}." if log.damage else ""
            return RunNotFoundError(f"{log.source} holds no numbers of a training.{reason}", advice=WHAT_IS_READ)
        problem = Problem(log.source, f"No loss is among the numbers: {shown}.", "Name one: --columns loss=NAME")
        return NoLossError([problem], subject="The log")
    known = "; ".join(form.name for form in all_formats())
    what = f"No log of a training was found at {location}, in {len(files)} files. Known: {known}."
    return RunNotFoundError(what, advice=WHAT_IS_READ)
