"""The paths of a run's files. The keys themselves are `trackside.contracts.run_layout`'s."""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from typing import Any

from smdebug import not_offered
from smdebug.core.modes import ModeKeys
from smdebug.core.utils import ensure_dir, get_node_id
from smdebug.profiler.profiler_constants import (
    CONVERT_TO_MICROSECS,
    DEFAULT_PREFIX,
    MERGEDTIMELINE_SUFFIX,
    PYTHONTIMELINE_SUFFIX,
    TRACE_DIRECTORY_FORMAT,
)
from trackside.contracts.run_layout import event_key, index_key, index_prefix, operators_prefix

STEP_NUMBER_FORMATTING_LENGTH = "012"

_EVENT_FILE_NAME = re.compile(r"(?P<step>\d+)_(?P<worker>.+)\.tfevents")
_INDEX_FILE_NAME = re.compile(r"(?P<step>\d+)_.+")
_INDEX_FILE = re.compile(r"(?P<run>.+)/index/\d+/[^/]+\.json")


class EventFileLocation(ABC):
    """The event file of one step and worker."""

    def __init__(self, step_num: int, worker_name: str) -> None:
        self.step_num, self.worker_name = int(step_num), worker_name
        self.type = "events"

    def get_step_num_str(self) -> str:
        return f"{self.step_num:{STEP_NUMBER_FORMATTING_LENGTH}}"

    def get_filename(self) -> str:
        return f"{self.get_step_num_str()}_{self.worker_name}.tfevents"

    @classmethod
    def match_regex(cls, s: str) -> EventFileLocation | None:
        """Return the location of the event file at this path, or None for another file."""
        return cls.load_filename(s, print_error=False)

    @classmethod
    def load_filename(cls, s: str, print_error: bool = True) -> EventFileLocation | None:
        """Return the same as `match_regex`. `print_error` changes nothing."""
        match = _EVENT_FILE_NAME.fullmatch(os.path.basename(s))
        return cls(int(match["step"]), match["worker"]) if match else None

    @abstractmethod
    def get_file_location(self) -> str:
        """Return the file's path."""


class TensorFileLocation(EventFileLocation):
    """The event file of a step's tensors."""

    @staticmethod
    def get_dir(trial_dir: str) -> str:
        return os.path.join(trial_dir, "events")

    def get_file_location(self, trial_dir: str = "") -> str:
        return os.path.join(trial_dir, event_key(self.step_num, self.worker_name))

    @classmethod
    def get_step_dirs(cls, trial_dir: str) -> list[str]:
        """Return the names of a local run's folders of steps."""
        return [entry.name for entry in os.scandir(cls.get_dir(trial_dir)) if entry.is_dir()]

    @classmethod
    def get_step_dir_path(cls, trial_dir: str, step_num: int) -> str:
        return os.path.join(cls.get_dir(trial_dir), f"{step_num:{STEP_NUMBER_FORMATTING_LENGTH}}")


class TensorboardFileLocation(EventFileLocation):
    """The file for TensorBoard that was begun at a step of a mode."""

    def __init__(self, step_num: int, worker_name: str, mode: ModeKeys | None = None) -> None:
        super().__init__(step_num, worker_name)
        self.mode = ModeKeys.GLOBAL if mode is None else mode
        self.type = "tensorboard"

    def get_file_location(self, base_dir: str = "") -> str:
        return os.path.join(base_dir or "tensorboard", self.mode.name, self.get_filename())


class TraceFileLocation:
    """The places of profiles below a folder. Times are in microseconds since the epoch."""

    @staticmethod
    def get_file_location(timestamp: float, base_dir: str, suffix: str = PYTHONTIMELINE_SUFFIX) -> str:
        """Return the path of a closed timeline by the end of its last event."""
        hour = time.strftime(TRACE_DIRECTORY_FORMAT, time.gmtime(timestamp / CONVERT_TO_MICROSECS))
        return os.path.join(base_dir, DEFAULT_PREFIX, hour, f"{round(timestamp)}_{get_node_id()}_{suffix}")

    @staticmethod
    def get_detailed_profiling_log_dir(base_folder: str, framework: str, current_step: int) -> str:
        """Return the folder of a profile of operators, and make it."""
        hour = time.strftime(TRACE_DIRECTORY_FORMAT, time.localtime())  # the original's is local
        folder = os.path.join(base_folder, operators_prefix(int(current_step), framework=framework, hour=hour))
        ensure_dir(folder, is_file=False)
        return folder.rstrip("/")

    @staticmethod
    def get_tf_profiling_metadata_file(base_folder: str, start_time_us: float, end_time_us: float) -> str:
        """Return the path of an empty file, named by the times of a profile, and make its folder."""
        name = f"{get_node_id()}_{round(start_time_us)}_{round(end_time_us)}.metadata"
        path = os.path.join(base_folder, name)
        ensure_dir(path)
        return path

    @staticmethod
    def get_python_profiling_stats_dir(  # noqa: PLR0917 - the old signature
        base_folder: str,
        profiler_name: str,
        framework: str,
        start_mode: str,
        start_step: int | str,
        start_phase: str,
        start_time_since_epoch_in_micros: float,
        end_mode: str,
        end_step: int | str,
        end_phase: str,
        end_time_since_epoch_in_micros: float,
    ) -> str:
        """Return the folder of a profile of Python functions, and make it."""
        start = f"{start_mode}-{start_step}-{start_phase}-{start_time_since_epoch_in_micros}"
        end = f"{end_mode}-{end_step}-{end_phase}-{end_time_since_epoch_in_micros}"
        folder = os.path.join(base_folder, "framework", framework, profiler_name, get_node_id(), f"{start}_{end}")
        ensure_dir(folder, is_file=False)
        return folder

    @staticmethod
    def get_merged_trace_file_location(base_dir: str, timestamp_in_us: float) -> str:
        """Return the path of a merged timeline that ends at that time."""
        return os.path.join(base_dir, f"{round(timestamp_in_us)}_{get_node_id()}_{MERGEDTIMELINE_SUFFIX}")


class IndexFileLocationUtils:
    """The places of index files."""

    MAX_INDEX_FILE_NUM_IN_INDEX_PREFIX = 1000

    @staticmethod
    def get_index_prefix_for_step(step_num: int) -> str:
        return index_prefix(step_num).split("/")[1]

    @staticmethod
    def next_index_prefix_for_step(step_num: int) -> str:
        return IndexFileLocationUtils.get_index_prefix_for_step(
            step_num + IndexFileLocationUtils.MAX_INDEX_FILE_NUM_IN_INDEX_PREFIX
        )

    @staticmethod
    def get_index_key_for_step(trial_prefix: str, step_num: int, worker_name: str) -> str:
        return os.path.join(trial_prefix, index_key(step_num, worker_name))

    @staticmethod
    def get_step_from_idx_filename(index_file_name: str) -> int:
        """Return the step in an index file's name.

        Raises:
            ValueError: It is no index file's name.
        """
        return IndexFileLocationUtils.parse_step_from_index_file_name(index_file_name)

    @staticmethod
    def parse_step_from_index_file_name(index_file_name: str) -> int:
        """Return the step in an index file's name.

        Raises:
            ValueError: It is no index file's name.
        """
        match = _INDEX_FILE_NAME.fullmatch(os.path.basename(index_file_name))
        if match is None:
            raise ValueError(f"{index_file_name!r} does not begin with a step.")
        return int(match["step"])

    @staticmethod
    def get_index_path(path: str) -> str:
        return os.path.join(path, "index")

    @staticmethod
    def get_prefix_from_index_file(index_file: str) -> str:
        """Return the run of an index file.

        Raises:
            ValueError: It is no index file.
        """
        match = _INDEX_FILE.fullmatch(index_file)
        if match is None:
            raise ValueError(f"{index_file!r} is no index file of a run.")
        return match["run"]


class TensorLocation:
    """The place of a tensor's value: the event file's path, the record's first byte and length."""

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        tname: str,
        mode: ModeKeys,
        mode_step: int,
        event_file_name: str,
        start_idx: int,
        length: int,
        worker: str,
    ) -> None:
        self.tensorname, self.mode, self.mode_step = tname, mode, mode_step
        self.event_file_name, self.start_idx, self.length = event_file_name, start_idx, length
        self.worker = worker

    def to_dict(self) -> dict[str, Any]:
        return {"tensorname": self.tensorname, "start_idx": self.start_idx, "length": self.length}


class TensorShape:
    """A tensor's shape, saved by itself."""

    def __init__(
        self, name: str, mode: ModeKeys, mode_step: int, shape: tuple[int, ...], original_name: str | None = None
    ) -> None:
        self.name, self.original_name = name, name if original_name is None else original_name
        self.mode, self.mode_step, self.shape = mode, mode_step, shape

    def to_dict(self) -> dict[str, Any]:
        return {"tensorname": self.name, "originalname": self.original_name, "shape": self.shape}


__getattr__ = not_offered.attribute_of(__name__)
