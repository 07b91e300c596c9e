"""The import of a run of the original smdebug, with as little copying as possible.

A run that stays in its place only gets a packed index, which speeds up reading. In another place its files become hard
links on the same file system, copies on the server within S3, and copies elsewhere. The source is never changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    KeyNotFoundError,
    Problem,
    RecordError,
    RunNotFoundError,
    StorageError,
)
from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.run_layout import (
    COLLECTIONS_PREFIX,
    END_MARKER_KEY,
    EVENTS_PREFIX,
    INDEX_PREFIX,
    STATISTICS,
    TENSORS,
    RunLocation,
    parse_index_key,
)
from trackside.contracts.stored_fields import BOOLEAN, TEXT, document_of, record_of, stored
from trackside.exchange.open_place import open_place
from trackside.exchange.places import FolderPlace, Place, UnreadableFileError, bring
from trackside.exchange.statistic_tables import Progress, untracked
from trackside.records.index_file import decode_index
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.parallel import REMOTE_READS_AT_ONCE, each_in_parallel
from trackside.trial.steps.packed_index import rebuild_packed_index

T = TypeVar("T")

RECORD_FILE = "import.json"  # in the destination: the note about the import

_TENSORBOARD_PREFIX = "tensorboard/"  # the original's own event files
_DATA_PREFIXES = (COLLECTIONS_PREFIX, EVENTS_PREFIX, _TENSORBOARD_PREFIX)


@dataclass(frozen=True)
class ImportedRun:
    """The result of an import.

    run             location of the readable run
    steps           number of steps
    workers         number of workers
    has_ended       True if the run has its end marker
    files           files of the run in the destination: linked, copied, or from an earlier import
    linked          hard links
    copied          copies
    copied_bytes    bytes of the copies
    on_server       True if S3 copied them by itself
    already_copied  files from an earlier import
    left_out        errors for files that could not be read and are missing
    damaged         errors for files that were brought as they are; readers skip their damage
    """

    run: str
    steps: int
    workers: int
    has_ended: bool
    files: int = 0
    linked: int = 0
    copied: int = 0
    copied_bytes: int = 0
    on_server: bool = False
    already_copied: int = 0
    left_out: tuple[RecordError, ...] = ()
    damaged: tuple[RecordError, ...] = ()


@dataclass(frozen=True)
class ImportRecord:
    """The note of an import, stored in the destination.

    source       location of the original run
    is_complete  False while files are missing
    """

    source: str = field(metadata=stored(TEXT))
    is_complete: bool = field(metadata=stored(BOOLEAN, absent=False))

    def to_json(self) -> str:
        """Return one line of JSON."""
        return to_json({"version": 1, **document_of(self)})

    @classmethod
    def from_json(cls, text: bytes) -> ImportRecord:
        """Return the note in a text that `to_json` wrote.

        Raises:
            ConfigurationError: It is no such note.
        """
        subject = f"The record {RECORD_FILE}"
        fields = Fields(parse_json(text, subject=subject), where="")
        fields.integer("version")
        record = record_of(cls, fields)
        fields.finish(subject=subject)
        return record


def import_run(source: str, destination: str | None = None, *, progress: Progress[Any] = untracked) -> ImportedRun:
    """Make a run of the original smdebug readable at full speed.

    A second import into the same destination, after an interruption or because the run has grown, brings missing files.

    Args:
        source: A folder or `s3://` prefix: `debug-output`, or its parent.
        destination: A new folder or `s3://` prefix for the run. None: nothing is moved, and a packed index is written
            beside the old one.
        progress: Wraps the list of files, to show progress.

    Raises:
        RunNotFoundError: The source holds no run.
        ConfigurationError: The destination holds something else, or lies within the source.
        StorageError: The destination cannot be written, or lacks a file in the end.
    """
    parts = _parts_of(source)
    found = _Found.of(parts[0].place)
    if destination is None:
        _make_ready(parts[0].place)
        return found.imported(run=source)
    _check_destination(source, destination)
    home = open_store(destination)
    origin = _comparable(source)
    _claim(home, origin)
    run = RunLocation(destination)
    work = _Work()
    for part in parts:
        target = open_place(f"{run.uri}/{part.folder}")
        phases = found.phases() if part.folder == TENSORS else (part.place.sizes([""]),)
        _bring_all(part, target, phases, work, progress)
    home.put(RECORD_FILE, ImportRecord(origin, is_complete=not work.left_out).to_json().encode())
    rebuild_packed_index(open_store(run.tensors))
    return found.imported(run=run.uri, work=work)


@dataclass(frozen=True)
class _Part:
    """One folder of the run.

    place     its location
    folder    its name in a run of ours
    may_link  True: files may become hard links
    """

    place: Place
    folder: str
    may_link: bool


class _Work:
    """The counts of files brought so far."""

    def __init__(self) -> None:
        self.files = self.linked = self.copied = self.copied_bytes = self.already_copied = 0
        self.on_server = False
        self.left_out: list[RecordError] = []


@dataclass(frozen=True)
class _Found:
    """The tensors of a run in the source: sizes by key."""

    data: Mapping[str, int]
    index: Mapping[str, int]
    end: Mapping[str, int]
    damaged: tuple[RecordError, ...]

    @classmethod
    def of(cls, place: Place) -> _Found:
        """List the files in the reverse order of writing: every file that a listed one promises is then listed too."""
        end = {key: size for key, size in place.sizes([END_MARKER_KEY]).items() if key == END_MARKER_KEY}
        index = place.sizes([INDEX_PREFIX])
        data = place.sizes(_DATA_PREFIXES)
        return cls(data, index, end, tuple(_damage(place, index, data)))

    def phases(self) -> tuple[Mapping[str, int], ...]:
        """Return the files in the order in which the original writes: an index after the files that it promises."""
        return self.data, self.index, self.end

    def imported(self, *, run: str, work: _Work | None = None) -> ImportedRun:
        saved = [saved for key in self.index if (saved := parse_index_key(key))]
        done = work or _Work()
        return ImportedRun(
            run=run,
            steps=len({step for step, _ in saved}),
            workers=len({worker for _, worker in saved}),
            has_ended=bool(self.end),
            files=done.files,
            linked=done.linked,
            copied=done.copied,
            copied_bytes=done.copied_bytes,
            on_server=done.on_server,
            already_copied=done.already_copied,
            left_out=tuple(done.left_out),
            damaged=self.damaged,
        )


def _parts_of(source: str) -> list[_Part]:
    bare, below = open_place(source), open_place(f"{source.rstrip('/')}/{TENSORS}")
    if _holds_tensors(bare):
        return [_Part(bare, TENSORS, may_link=True)]
    if not _holds_tensors(below):
        raise RunNotFoundError(
            f"Nothing that looks like a run lies at {source}. Give the folder or s3:// prefix that holds '{TENSORS}', "
            "or the one that holds 'index' and 'events'."
        )
    statistics = _Part(open_place(f"{source.rstrip('/')}/{STATISTICS}"), STATISTICS, may_link=False)  # some still grow
    has_statistics = next(iter(open_store(statistics.place.uri).list()), None) is not None
    return [_Part(below, TENSORS, may_link=True), *([statistics] if has_statistics else [])]


def _holds_tensors(place: Store) -> bool:
    return any(next(iter(place.list(prefix)), None) for prefix in (INDEX_PREFIX, COLLECTIONS_PREFIX))


def _damage(place: Place, index: Mapping[str, int], data: Mapping[str, int]) -> Iterator[RecordError]:
    """Yield an error for each event file that is missing or too short, according to the index alone."""

    def read(key: str) -> bytes | None:
        try:
            return bytes(place.get(key, length=MOST_JSON_BYTES + 1))
        except (KeyNotFoundError, AccessDeniedError, StorageError):
            return None  # bringing it reports the reason

    keys = [key for key in index if parse_index_key(key)]
    for key, content in zip(keys, each_in_parallel(place, read, keys), strict=True):
        if content is None:
            continue
        try:
            entries = decode_index(content, key=key)
        except RecordError as error:
            yield error
            continue
        event_key = entries.event_key
        if event_key is None:
            continue
        promised = max((entry.start + entry.length for entry in entries.entries), default=0)
        if event_key not in data:
            yield RecordError(event_key, 0, "the index names this event file, but it is not there.")
        elif 0 <= data[event_key] < promised:
            yield RecordError(
                event_key, data[event_key], f"the file ends here, but its index promises {promised} bytes."
            )


def _check_destination(source: str, destination: str) -> None:
    here, target = _comparable(source), _comparable(destination)
    if here == target or target.startswith(f"{here}/"):
        fix = "Name a place outside of it; without a destination the run is made ready where it lies."
        raise ConfigurationError([Problem(destination, "It lies within the source.", fix)], subject="The destination")


def _comparable(uri: str) -> str:
    return uri.rstrip("/") if "://" in uri else os.path.realpath(os.path.expanduser(uri))


def _claim(home: Store, source: str) -> None:
    """Mark the destination as this run's.

    Raises:
        ConfigurationError: It holds something else.
    """
    try:
        record = ImportRecord.from_json(home.get(RECORD_FILE))
    except KeyNotFoundError:
        record = None
    if record is None and next(iter(home.list()), None) is not None:
        fix = "Name a new folder or prefix."
        raise ConfigurationError([Problem(home.uri, "It is not empty.", fix)], subject="The destination")
    if record is not None and record.source != source:
        fix = "Name a new folder or prefix."
        what = f"It holds another run, imported from {record.source}."
        raise ConfigurationError([Problem(home.uri, what, fix)], subject="The destination")
    home.put(RECORD_FILE, ImportRecord(source, is_complete=False).to_json().encode())


def _bring_all(
    part: _Part, target: Place, phases: Iterable[Mapping[str, int]], work: _Work, progress: Progress[Any]
) -> None:
    """Bring the files of each phase before those of the next.

    Raises:
        StorageError: The destination cannot be written, or lacks a file in the end.
    """
    expected: dict[str, int] = {}
    existing = target.sizes([""])
    left_out: set[str] = set()
    work.on_server = not isinstance(part.place, FolderPlace) and not isinstance(target, FolderPlace)
    for phase in phases:
        missing = [(key, size) for key, size in phase.items() if size < 0 or existing.get(key) != size]
        expected.update(phase)
        work.already_copied += len(phase) - len(missing)
        for (key, _), outcome in zip(missing, _outcomes(part, target, missing, progress), strict=True):
            if isinstance(outcome, UnreadableFileError):
                work.left_out.append(RecordError(key, 0, f"cannot be read: {outcome}."))
                left_out.add(key)
            elif outcome is None:
                work.linked += 1
            else:
                work.copied += 1
                work.copied_bytes += outcome
    arrived = open_place(target.uri).sizes([""])  # seen anew: a place may remember what it has listed
    lacking = [key for key, size in expected.items() if key not in left_out and arrived.get(key) != size]
    if lacking:
        what = f"{len(lacking)} of {len(expected)} files are not as in the source, {lacking[0]} among them"
        raise StorageError(f"{what}, in {target.uri}. Did the run change meanwhile? Import it again.")
    work.files += len(expected) - len(left_out)


def _outcomes(
    part: _Part, target: Place, missing: Sequence[tuple[str, int]], progress: Progress[Any]
) -> Iterator[int | UnreadableFileError | None]:
    """Yield the result for each file: bytes copied, None for a link, or the reason why it could not be read.

    Many files are brought at once if one of the places is in S3.
    """

    def one(item: tuple[str, int]) -> int | UnreadableFileError | None:
        try:
            return bring(*item, source=part.place, target=target, may_link=part.may_link)
        except UnreadableFileError as error:
            return error

    tracked = iter(progress(missing, "importing files"))
    if all(isinstance(place, FolderPlace) for place in (part.place, target)):
        yield from map(one, tracked)
        return
    with ThreadPoolExecutor(REMOTE_READS_AT_ONCE) as pool, _cancelling(pool.map(one, missing)) as outcomes:
        for _, outcome in zip(tracked, outcomes, strict=True):
            yield outcome


@contextlib.contextmanager
def _cancelling(outcomes: Iterator[T]) -> Iterator[Iterator[T]]:
    """Start no further file after an error."""
    try:
        yield outcomes
    finally:
        cast("Generator[T, None, None]", outcomes).close()


def _make_ready(place: Place) -> None:
    """Write the packed index of a run that stays in its place."""
    try:
        rebuild_packed_index(open_store(place.uri))
    except AccessDeniedError as error:
        raise AccessDeniedError(
            f"{error} Or name a destination: what may be read only can be imported to one."
        ) from error
