"""The timelines of a run: files below its profiles, and the events in them.

framework/pevents/<hour>/<end>_<node>_<source>                                     microseconds, UTC
framework/<framework>/detailed_profiling/<hour>/<step>/plugins/profile/<moment>/<host>.trace.json.gz
framework/<framework>/detailed_profiling/<hour>/<step>/<node>_<start>_<end>.metadata
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.speed.performance.trace_events import MOST_BYTES, TimelineEvent, decode_trace
from trackside.storage.store import Store
from trackside.trial.parallel import in_parallel

PREFIX = "framework/"
BUFFER_MICROSECONDS = 3 * 60 * 1_000_000  # an event lies in a file that ends later than it; an open one in the next
_CLOSED = re.compile(
    r"(?:.*/)?pevents/(?:.*/)?(?P<end>\d+)_(?P<node>[^_/]+)_(?:[^/]*_)?"
    r"(?P<source>pythontimeline\.json|(?:model|horovod|smdataparallel)_timeline\.json)"
)
_DETAILED = re.compile(r"(?P<folder>.*/detailed_profiling/.*)/plugins/profile/[^/]+/(?P<node>[^/.]+)[^/]*\.json\.gz")
_METADATA = re.compile(r"(?P<folder>.*/detailed_profiling/.*)/[^/]*_(?P<start>\d+)_(?P<end>\d+)\.metadata")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TimelineFile:
    """One timeline.

    Attributes:
        key: Its key below the run's profiles.
        node: Name of the machine or process.
        source: The end of its name, which says what wrote it: `pythontimeline.json`.
        end: The end of its last event, in microseconds since the epoch; 0 if it is not known.
        base: The moment that its times count from, if it holds none itself.
    """

    key: str
    node: str
    source: str
    end: int
    base: int = 0


def timeline_files(keys: Iterable[str]) -> list[TimelineFile]:
    """Return the timelines among these keys, by the end of their last event.

    Args:
        keys: Keys below a run's profiles.
    """
    found, detailed, spans = [], [], {}
    for key in keys:
        if match := _CLOSED.fullmatch(key):
            found.append(TimelineFile(key, match["node"], match["source"], int(match["end"])))
        elif match := _DETAILED.fullmatch(key):
            detailed.append((key, match))
        elif match := _METADATA.fullmatch(key):
            spans[match["folder"]] = int(match["start"]), int(match["end"])
    for key, match in detailed:
        start, end = spans.get(match["folder"], (0, 0))
        found.append(TimelineFile(key, match["node"], "trace.json.gz", end, start))
    return sorted(found, key=lambda file: (file.end, file.key))


def files_between(
    files: Sequence[TimelineFile], start: float, end: float, *, buffer: float = BUFFER_MICROSECONDS
) -> list[TimelineFile]:
    """Return the files that may hold events between two moments.

    An event lies in the first file of its writer that ends after it: so of each writer the first file behind `end` is
    among them.

    Args:
        files: Timelines, by the end of their last event.
        start: Microseconds since the epoch.
        end: Microseconds since the epoch.
        buffer: Microseconds by which files may be late.
    """
    found: list[TimelineFile] = []
    is_complete: dict[tuple[str, str], bool] = defaultdict(bool)
    for file in files:
        writer = file.node, file.source
        if not file.end or (file.end >= start - buffer and not is_complete[writer]):
            found.append(file)
            is_complete[writer] = file.end > end + buffer
    return found


def read_timeline(store: Store, file: TimelineFile) -> list[TimelineEvent]:
    """Return the events of one file, in its order.

    Raises:
        RecordError: It is damaged.
        KeyNotFoundError: It was removed.
        StorageError: The store cannot be read.
    """
    data = store.get(file.key, length=MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise RecordError(file.key, MOST_BYTES, f"is larger than the {MOST_BYTES >> 20} MiB that are read of it")
    return list(decode_trace(data, key=file.key, node=file.node, base=file.base))


def events_of(store: Store, files: Sequence[TimelineFile]) -> list[TimelineEvent]:
    """Return the events of several files, by their start. A damaged file is named in the log, and left out.

    Raises:
        StorageError: The store cannot be read.
    """
    by_file = in_parallel(store, lambda file: _whole(store, file), files)
    return sorted((event for events in by_file for event in events), key=lambda event: event.start)


def _whole(store: Store, file: TimelineFile) -> list[TimelineEvent]:
    try:
        return read_timeline(store, file)
    except (RecordError, KeyNotFoundError) as error:
        logger.warning("A timeline is left out: %s", error)
        return []
