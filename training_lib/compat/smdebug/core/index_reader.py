"""The index files of a run, for scripts that go below `create_trial`."""

from __future__ import annotations

import os
from typing import Any

from smdebug import not_offered
from smdebug.analysis.utils import logger
from smdebug.core.config_constants import MISSING_EVENT_FILE_RETRY_LIMIT
from smdebug.core.locations import TensorLocation, TensorShape
from smdebug.core.modes import ModeKeys
from smdebug.core.utils import deserialize_tf_device, is_s3, step_in_range
from smdebug.exceptions import IndexReaderException, SMDebugValueError, TensorUnavailableForStep
from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.run_layout import EVENTS_PREFIX, INDEX_PREFIX, parse_index_key
from trackside.records.index_file import Index, decode_index
from trackside.records.step_file import fetch_record
from trackside.records.tfevents import decode_record
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.storage.open_store import open_store

RangeSteps = tuple["int | None", "int | None"]
# Tensor -> step of the run -> worker -> {"tensor_location": ..., "tensor_shape": ...}, of which one may be missing.
Locations = dict[str, dict[int, dict[str, dict[str, Any]]]]


class ReadIndexFilesCache:
    """The index files read so far. Beyond `cache_limit` those before a given one are forgotten."""

    def __init__(self) -> None:
        self.lookup_set: set[str] = set()
        self.cache_limit = 1000

    def has_not_read(self, index_file: str) -> bool:
        return index_file not in self.lookup_set

    def add(self, index_file: str, start_after_key: str | None) -> None:
        if len(self.lookup_set) > self.cache_limit and start_after_key is not None:
            self.lookup_set = {each for each in self.lookup_set if each >= start_after_key}
        self.lookup_set.add(index_file)


class IndexReader:
    """A reader that reads each index file of a run once.

    `path` is a folder or s3://; files are named by their whole path.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.logger = logger
        self.index_file_cache = ReadIndexFilesCache()
        self.event_file_retry_limit = MISSING_EVENT_FILE_RETRY_LIMIT
        self._store = open_store(path)
        self._root = path.rstrip("/")  # stands before a key in the names of files

    def list_index_files(self) -> list[str]:
        """Return the index files, sorted."""
        return self._files(INDEX_PREFIX)

    def list_event_files(self, start_after_key: str | None = None) -> list[str]:
        """Return the event files from a given one on, sorted."""
        return [file for file in self._files(EVENTS_PREFIX) if file >= (start_after_key or "")]

    def read_index_files(
        self, start_after_key: str | None, range_steps: RangeSteps | None = None
    ) -> tuple[list[bytes], list[int], str | None, list[str]]:
        """Return (contents, steps, last index file, workers) of files not read before."""
        contents, steps, workers = [], [], []
        files = self._index_from(start_after_key)
        for file in files:
            found = parse_index_key(self._key(file))
            if found is None or not self.index_file_cache.has_not_read(file):
                continue
            if range_steps is not None and not step_in_range(range_steps, found[0]):
                continue
            contents.append(self._store.get(self._key(file), length=MOST_JSON_BYTES + 1))
            steps.append(found[0])
            workers.append(_as_named(found[1]))
            self.index_file_cache.add(file, start_after_key)
        return contents, steps, files[-1] if files else start_after_key, workers

    def load_tensor_data_from_index_files(
        self, start_after_key: str | None = None, range_steps: RangeSteps | None = None
    ) -> tuple[Locations, str | None]:
        """Return (the place of each tensor, the last index file) from files not read before.

        Raises:
            IndexReaderException: A file is no index.
        """
        contents, steps, last, workers = self.read_index_files(start_after_key, range_steps)
        found: Locations = {}
        for content, step, worker in zip(contents, steps, workers, strict=True):
            try:
                index = decode_index(content, key=f"the index of step {step} of {worker} in {self.path}")
            except RecordError as error:
                raise IndexReaderException(str(error)) from error
            self._add(found, index, step, worker)
        return found, last

    def fetch_tensor_value(self, tensor_location: TensorLocation) -> Any:
        """Return the tensor.

        Raises:
            TensorUnavailableForStep: Its event file is missing.
            RecordError: Its record is damaged.
        """
        self.event_file_present_loop(tensor_location)
        key = self._key(tensor_location.event_file_name)
        start = tensor_location.start_idx
        data = fetch_record(self._store, key, start=start, length=tensor_location.length)
        return decode_record(data, key=key, offset=start).value

    def event_file_present_loop(self, tensor_location: TensorLocation) -> None:
        """Raise an error if the event file is missing. Only trials wait for one.

        Raises:
            TensorUnavailableForStep: The event file is missing.
        """
        try:
            self._store.get(self._key(tensor_location.event_file_name), length=0)
        except KeyNotFoundError as error:
            raise TensorUnavailableForStep(
                tensor_location.tensorname, tensor_location.mode_step, tensor_location.mode
            ) from error

    def _add(self, found: Locations, index: Index, step: int, worker: str) -> None:
        mode = ModeKeys[index.mode]
        for entry in index.entries:
            location = TensorLocation(
                entry.name,
                mode,
                index.mode_step,
                self._event_file(index.event_key or ""),
                entry.start,
                entry.length,
                worker,
            )
            _place(found, entry.name, step, worker)["tensor_location"] = location
        for shape in index.shapes:
            _place(found, shape.name, step, worker)["tensor_shape"] = TensorShape(
                shape.name, mode, index.mode_step, shape.shape, shape.original_name
            )

    def _index_from(self, start: str | None) -> list[str]:
        """Return index files from that one on: a local listing begins with its start, one of S3 after it."""
        return [file for file in self._files(INDEX_PREFIX) if file >= (start or "")]

    def _files(self, prefix: str, *, after: str | None = None) -> list[str]:
        start_after = self._key(after) if after else ""
        return [self._file(key) for key in self._store.list(prefix, start_after=start_after)]

    def _event_file(self, key: str) -> str:
        return self._file(key)

    def _file(self, key: str) -> str:
        return os.path.join(self._root, key)

    def _key(self, file: str) -> str:
        return file.removeprefix(self._root).lstrip("/")


class LocalIndexReader(IndexReader):
    """A reader of a run in a folder."""


class S3IndexReader(IndexReader):
    """A reader of a run on S3. Index files are named by their whole key, event files by s3://bucket/key."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        on_s3, self.bucket_name, prefix = is_s3(path)
        if not on_s3:
            raise SMDebugValueError(f"{path!r} is not on S3.")
        self.prefix_name = (prefix or "").rstrip("/")
        self._root = self.prefix_name

    def list_index_files(self, start_after_key: str | None = None) -> tuple[list[str], str | None]:  # type: ignore[override]  # as the original
        """Return (index files after a given one, the last of them)."""
        keys = self._files(INDEX_PREFIX, after=start_after_key)
        return keys, keys[-1] if keys else None

    def list_event_files(self, start_after_key: str | None = None) -> list[str]:
        """Return the event files after a given one, sorted."""
        return self._files(EVENTS_PREFIX, after=start_after_key)

    def _index_from(self, start: str | None) -> list[str]:
        return self._files(INDEX_PREFIX, after=start)

    def _event_file(self, key: str) -> str:
        return f"s3://{self.bucket_name}/{self._file(key)}"

    def _key(self, file: str) -> str:
        on_s3, _, key = is_s3(file)
        return super()._key(key or "" if on_s3 else file)


def _place(found: Locations, name: str, step: int, worker: str) -> dict[str, Any]:
    return found.setdefault(name, {}).setdefault(step, {}).setdefault(worker, {})


def _as_named(worker: str) -> str:
    return deserialize_tf_device(worker) if worker.startswith("_") else worker


__getattr__ = not_offered.attribute_of(__name__)
