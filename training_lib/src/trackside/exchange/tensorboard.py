"""A run's scalars, statistics and histograms as event files that TensorBoard opens.

`<folder>/<run>/<MODE>/<worker>/events.out.tfevents.<time>.trackside`: one TensorBoard run for each mode and worker, so
that several exported runs lie side by side below one folder. The time is that of the run's first step: exporting again
writes the same names, and replaces. docs/exporting.md lists the tags.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem, RecordError, StorageError
from trackside.exchange.statistic_tables import (
    Progress,
    SaveTimes,
    StatisticTable,
    check_statistics,
    file_name,
    first_collections,
    one_number_names,
    run_name,
    selected,
    statistic_tables,
    untracked,
)
from trackside.records.tensorboard_file import (
    clean_tag,
    encode_histogram,
    encode_scalar,
    encode_scalars,
    encode_text,
    encode_version,
    event_file_name,
    histogram_of,
)
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.series import TensorSeries
from trackside.trial.trial import Trial

DEFAULT_STATISTICS = ("mean", "std", "abs_max", "l2")
FINDINGS = "FINDINGS"  # beside the modes of the run
HOST = "trackside"  # where TensorBoard's own files name a machine

_ONE_NUMBER = ("mean",)  # of a single element every such statistic is the element


@dataclass(frozen=True)
class TensorBoardExport:
    """The result of an export.

    folder      folder of the exported run
    files       the event files
    tensors     number of tensors with points
    scalars     number of points of scalars
    histograms  number of histograms
    findings    number of texts about findings, each with a point at its step
    """

    folder: Path
    files: tuple[Path, ...]
    tensors: int
    scalars: int
    histograms: int
    findings: int = 0


@dataclass(frozen=True)
class FindingText:
    """A finding as TensorBoard shows it.

    tag        name of the rule's configuration
    step       the step of the verdict
    text       the text, shown as it is
    severity   1 for info, 2 for warning, 3 for critical
    worker     the worker that it is about
    wall_time  seconds since the epoch
    """

    tag: str
    step: int
    text: str
    severity: int
    worker: str
    wall_time: float


def export_tensorboard(
    trial: Trial,
    folder: str | os.PathLike[str],
    *,
    tensors: Sequence[TensorSeries] | None = None,
    statistics: Sequence[str] = DEFAULT_STATISTICS,
    histograms: bool = False,
    run: str | None = None,
    store: Store | None = None,
    progress: Progress[Any] = untracked,
    findings: Sequence[FindingText] = (),
) -> TensorBoardExport:
    """Write tensors as event files: those of one element as scalars, others as statistics.

    One tensor is in memory at a time. Files are replaced whole, once everything has been read. Damaged values are left
    out, and listed in `Trial.damaged`.

    Args:
        trial: The run.
        folder: Parent of the run's folder.
        tensors: Tensors from `Trial.tensors`; None: all.
        statistics: Statistics of tensors with several elements.
        histograms: Write histograms too. Fetches every tensor in full, in a request each.
        run: Name of the run's folder; None: the run's name.
        store: Store of the trial's tensors; None: opened anew.
        progress: Wraps lists of tensors, to show progress.
        findings: Findings, written as texts and as points of their severity to the run `FINDINGS`.

    Raises:
        ConfigurationError: A statistic is unknown.
        TensorNotSavedError: No tensor is selected.
        StorageError: A file cannot be written, or the run cannot be read.
    """
    target = _target(folder, run_name(trial.uri) if run is None else file_name(run))
    chosen = selected(trial, tensors)
    check_statistics(trial, chosen, statistics)
    source = open_store(trial.uri) if store is None else store
    times, tags = SaveTimes(trial, source), _Tags(first_collections(trial))
    one_number = one_number_names(trial, chosen)
    with _Files(target, times) as files:
        for series in progress(chosen, "reading tensors"):
            is_one = series.name in one_number
            for table in statistic_tables(trial, series, _ONE_NUMBER if is_one else statistics):
                files.scalars += _write_scalars(files, table, times, tags, is_one=is_one)
        if histograms:
            several = [series for series in chosen if series.name not in one_number]
            for series in progress(several, "reading histograms"):
                files.histograms += _write_histograms(files, trial, series, tags.histogram(series.name), times)
        for finding in findings:
            _write_finding(files, finding)
        written = files.finish()
    return TensorBoardExport(
        folder=target,
        files=written,
        tensors=len(files.tensors),
        scalars=files.scalars,
        histograms=files.histograms,
        findings=len(findings),
    )


class _Tags:
    """The tags of tensors, all different: otherwise `loss:0` and `loss_0` would be one line in TensorBoard."""

    def __init__(self, collections: dict[str, str]) -> None:
        self._collections = collections
        self._tags: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()

    def scalar(self, tensor: str) -> str:
        return self._unique(tensor, tensor)

    def statistic(self, tensor: str, statistic: str) -> str:
        return self._unique(tensor, f"{self._collections.get(tensor, 'default')}/{tensor}/{statistic}")

    def histogram(self, tensor: str) -> str:
        """Return `<collection>/<tensor>`, the original's name."""
        return self._unique(tensor, f"{self._collections.get(tensor, 'default')}/{tensor}")

    def _unique(self, tensor: str, name: str) -> str:
        tag = self._tags.get((tensor, name))
        if tag is None:
            clean = tag = clean_tag(name) or "_"
            number = 2
            while tag in self._taken:
                tag, number = f"{clean}_{number}", number + 1
            self._taken.add(tag)
            self._tags[tensor, name] = tag
        return tag


class _Files:
    """The event files during writing: partial until `finish`, and removed if it is never reached."""

    def __init__(self, folder: Path, times: SaveTimes) -> None:
        self._folder, self._times = folder, times
        self._partial: dict[Path, Path] = {}
        self._token = secrets.token_hex(6)
        self.tensors: set[str] = set()
        self.scalars = self.histograms = 0

    def __enter__(self) -> _Files:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for partial in self._partial.values():
            partial.unlink(missing_ok=True)

    def append(self, mode: str, worker: str, records: bytes) -> None:
        """Add records to the file of a mode and worker.

        Raises:
            StorageError: The file cannot be written.
        """
        began = self._times.first()
        path = self._folder / file_name(mode) / file_name(worker) / event_file_name(began, host=HOST)
        try:
            if path not in self._partial:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._partial[path] = path.with_name(f"{self._token}.tmp")  # TensorBoard looks for `tfevents`
                records = encode_version(began) + records
            with self._partial[path].open("ab") as file:  # not kept open: a run may have hundreds of workers
                file.write(records)
        except OSError as error:
            raise _not_written(path, error) from error

    def finish(self) -> tuple[Path, ...]:
        """Rename every file to its final name.

        Raises:
            StorageError: A file cannot be renamed.
        """
        for path, partial in self._partial.items():
            try:
                partial.replace(path)
            except OSError as error:
                raise _not_written(path, error) from error
        return tuple(sorted(self._partial))


def _write_scalars(files: _Files, table: StatisticTable, times: SaveTimes, tags: _Tags, *, is_one: bool) -> int:
    files.tensors.add(table.tensor)
    saved_at, count = times.of(table.worker, table.steps), 0
    for statistic, (values, mask) in table.columns.items():
        tag = tags.scalar(table.tensor) if is_one else tags.statistic(table.tensor, statistic)
        steps, wall_times = table.steps[mask].tolist(), saved_at[mask].tolist()
        records = encode_scalars(tag, values[mask], steps=steps, wall_times=wall_times)
        files.append(table.mode, table.worker, records)
        count += len(steps)
    return count


def _write_finding(files: _Files, finding: FindingText) -> None:
    tag = f"trackside/{clean_tag(finding.tag)}"
    indented = "\n".join(f"    {line}" for line in finding.text.splitlines())  # Markdown's form of a text as it is
    step, wall_time = finding.step, finding.wall_time
    text = encode_text(tag, indented, step=step, wall_time=wall_time)
    point = encode_scalar(f"{tag}/severity", finding.severity, step=step, wall_time=wall_time)
    files.append(FINDINGS, finding.worker, text + point)


def _write_histograms(files: _Files, trial: Trial, series: TensorSeries, tag: str, times: SaveTimes) -> int:
    count = 0
    for saved in trial.parts.saved.saved(series.name, series.selection):
        if series.name not in saved.layout.records:  # a reduction of it
            continue
        try:
            value = trial.value(series.name, step=saved.step, worker=saved.worker)
        except RecordError:  # the trial has noted it
            continue
        histogram = histogram_of(value) if value.dtype.kind in "biuf" else None
        if histogram is None:  # text, or nothing finite: the statistics show it
            continue
        time = times.at(saved.worker, saved.step)
        files.append(saved.mode, saved.worker, encode_histogram(tag, histogram, step=saved.step, wall_time=time))
        count += 1
    return count


def _target(folder: str | os.PathLike[str], run: str) -> Path:
    text = os.fspath(folder)
    if "://" in text:
        problem = Problem(
            text, "The destination must be on this machine.", "Export to a folder, then: aws s3 sync FOLDER s3://..."
        )
        raise ConfigurationError([problem], subject="The export")
    return Path(text).expanduser() / run


def _not_written(path: Path, error: OSError) -> StorageError:
    return StorageError(f"Cannot write {path}. {error.strerror or error}.", advice="the export to another place")
