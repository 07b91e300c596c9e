"""The common part of all readers of the profiler's files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from smdebug import not_offered
from smdebug.core.logger import get_logger
from smdebug.profiler.utils import TimeUnits, convert_utc_timestamp_to_microseconds
from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.parallel import in_parallel

E = TypeVar("E")


class MetricsReaderBase(Generic[E]):
    """A reader of the files below a run's profiles.

    Args:
        use_in_memory_cache: True to keep the events of each file that was read.
        location: The folder, or `s3://bucket/prefix`; "" for none.
    """

    prefix = ""

    def __init__(self, use_in_memory_cache: bool = False, *, location: str | os.PathLike[str] = "") -> None:
        self.logger = get_logger()
        self._store: Store = open_store(os.fspath(location)) if location else MemoryStore()
        self._cache_events_in_memory = use_in_memory_cache
        self._cached: dict[str, list[E]] = {}
        self._keys: list[str] = []
        self._event_parsers: list[Any] = []
        self.refresh_event_file_list()

    def get_all_event_parsers(self) -> list[Any]:
        return self._event_parsers

    def refresh_event_file_list(self) -> None:
        """List the files again.

        Raises:
            StorageError: The store cannot be read.
        """
        self._keys = list(self._store.list(f"{self.prefix}/"))

    def get_timestamp_of_first_available_file(self) -> int:
        """Return the time in the name of the first file in microseconds; 0 for none."""
        return min(self._timestamps(), default=0)

    def get_timestamp_of_latest_available_file(self) -> int:
        """Return the time in the name of the last file in microseconds; 0 for none."""
        return max(self._timestamps(), default=0)

    def get_events(
        self,
        start_time: float,
        end_time: float,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[E]:
        """Return the events of a range.

        Args:
            start_time: Its begin, since the epoch.
            end_time: Its end, since the epoch.
            unit: The unit of both.
            event_type: Of machines: only samples of this type. Of timelines: only events of this phase or name.
            file_suffix_filter: Only events of files whose name ends with one of these.

        Raises:
            StorageError: The store cannot be read.
        """
        start, end = (convert_utc_timestamp_to_microseconds(moment, unit) for moment in (start_time, end_time))
        if end >= self.get_timestamp_of_latest_available_file():
            self.refresh_event_file_list()
        wanted = [
            (key, read)
            for key, read in self._files_between(start, end)
            if file_suffix_filter is None or key.endswith(tuple(file_suffix_filter))
        ]
        return [
            event
            for events in in_parallel(self._store, self._read, wanted)
            for event in events
            if self._is_within(event, start, end, event_type)
        ]

    def _read(self, file: tuple[str, Callable[[], list[E]]]) -> list[E]:
        key, read = file
        if key in self._cached:
            return self._cached[key]
        try:
            events = read()
        except RecordError as error:
            self.logger.error(f"A file of the profiler is left out: {error}")
            events = []
        except KeyNotFoundError:  # removed since it was listed
            events = []
        if self._cache_events_in_memory:
            self._cached[key] = events
        return events

    def _timestamps(self) -> list[int]:
        raise NotImplementedError

    def _files_between(self, start: float, end: float) -> list[tuple[str, Callable[[], list[E]]]]:
        """Return the files that may hold events of a range in microseconds, each with its reading."""
        raise NotImplementedError

    def _is_within(self, event: E, start: float, end: float, event_type: str | None) -> bool:
        raise NotImplementedError


__getattr__ = not_offered.attribute_of(__name__)
