"""Helpers for scripts."""

from __future__ import annotations

import bisect
import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from smdebug import not_offered
from smdebug.core import simulators
from smdebug.core.config_constants import CLAIM_FILENAME
from smdebug.core.json_config import get_node_id_from_resource_config
from smdebug.core.logger import get_logger
from smdebug.exceptions import IndexReaderException, SMDebugRuntimeError, SMDebugTypeError, SMDebugValueError
from trackside.contracts.name_pattern import name_pattern
from trackside.contracts.run_layout import COLLECTIONS_PREFIX, EVENTS_PREFIX
from trackside.environment import CaptureEnvironment, OldNamesEnvironment

_S3 = re.compile(r"s3://(?P<bucket>[^/]+)/?(?P<key>.*)", re.DOTALL)
_STEP_FILE = re.compile(r".*/\d+_(?P<worker>[^/]+)\.(json|csv|tfevents)", re.DOTALL)
_COLLECTIONS_FILE = re.compile(r"(.*/)?collections/.+/(?P<worker>[^/]+)_collections\.(json|ts)", re.DOTALL)


SagemakerSimulator = simulators.SagemakerSimulator
ScriptSimulator = simulators.ScriptSimulator


class FRAMEWORK(Enum):
    """A framework that smdebug captures."""

    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    MXNET = "mxnet"
    XGBOOST = "xgboost"


def is_framework_version_supported(framework_type: FRAMEWORK) -> bool:
    """Return True: a framework is captured in any version that has the functions that capture needs."""
    return True


# Paths and files


def is_s3(path: str) -> tuple[bool, str | None, str | None]:
    """Return the parts of a location: `s3://bucket/a/b` -> (True, "bucket", "a/b"); others -> (False, None, None)."""
    match = _S3.fullmatch(path)
    return (True, match["bucket"], match["key"]) if match else (False, None, None)


def ensure_dir(file_path: str, is_file: bool = True) -> None:
    """Make the folder of a local file, or with `is_file` False that folder itself."""
    folder = os.path.dirname(file_path) if is_file else file_path
    if folder and not is_s3(file_path)[0]:
        os.makedirs(folder, exist_ok=True)


def get_immediate_subdirectories(a_dir: str) -> list[str]:
    """Return the names of the folders in a folder."""
    return [entry.name for entry in os.scandir(a_dir) if entry.is_dir()]


def list_files_in_directory(directory: str, file_regex: str | None = None) -> list[str]:
    """Return the paths of all files below a folder; with `file_regex` only paths that it matches from the beginning."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]
    return [path for path in paths if file_regex is None or re.match(file_regex, path)]


def list_collection_files_in_directory(directory: str) -> list[str]:
    """Return the paths of the collections files in a folder, sorted."""
    return sorted(str(path) for path in Path(directory).glob("*_collections.json"))


def remove_file_if_exists(file_path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(file_path)


def get_path_to_collections(directory: str) -> str:
    """Return the folder of a run's collections files."""
    return os.path.join(directory, COLLECTIONS_PREFIX)


def get_path_to_events_directory(path: str) -> str:
    """Return the folder of a run's event files."""
    return os.path.join(path, EVENTS_PREFIX)


def get_relative_event_file_path(path: str) -> str:
    """Return the last three parts of an event file's path: its place in the run.

    Raises:
        SMDebugRuntimeError: It is no event file's path.
    """
    parts = path.split("/")[-3:]
    if parts[0] not in {"events", "tensorboard"}:
        raise SMDebugRuntimeError(f"Invalid path: {path}, should contain either 'events' or 'tensorboard'")
    return "/".join(parts)


def parse_worker_name_from_file(filename: str) -> str:
    """Return the worker of an index or event file.

    Raises:
        IndexReaderException: It is neither.
    """
    match = _STEP_FILE.fullmatch(filename)
    if match is None:
        raise IndexReaderException(f"Invalid File Found: {filename}")
    return _as_named(match["worker"])


def get_worker_name_from_collection_file(filename: str) -> str:
    """Return the worker of a collections file.

    Raises:
        SMDebugValueError: It is no collections file.
    """
    match = _COLLECTIONS_FILE.fullmatch(filename)
    if match is None:
        raise SMDebugValueError(f"{filename!r} is no collections file of a run.")
    return _as_named(match["worker"])


def serialize_tf_device(device: str) -> str:
    """Return TensorFlow's device in the form of file names: `/job:worker/task:1` -> `_job-worker_task-1`."""
    return device.replace("/", "_").replace(":", "-")


def deserialize_tf_device(device_name: str) -> str:
    """Return the device in a file name: the inverse of `serialize_tf_device`."""
    return device_name.replace("_", "/").replace("-", ":")


def _as_named(worker: str) -> str:
    return deserialize_tf_device(worker) if worker.startswith("_") else worker


# One of several processes


def is_first_process(path: str, is_dir: bool = True) -> bool:
    """Return True for the first process that calls it: it leaves a file at `path`, or in that folder. True on S3."""
    if is_s3(path)[0]:
        return True
    claim = os.path.join(path, CLAIM_FILENAME) if is_dir else path
    ensure_dir(claim)
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def remove_claim_file(path: str) -> None:
    """Let another process be the first one in this folder."""
    if not is_s3(path)[0]:
        remove_file_if_exists(os.path.join(path, CLAIM_FILENAME))


def get_node_id() -> str:
    """Return a name of this process on this machine, without `_`: its rank, or else its number, and the host."""
    environment = CaptureEnvironment.read()
    process = environment.rank if environment.world_size > 1 else os.getpid()
    return f"{process}-{get_node_id_from_resource_config() or socket.gethostname()}".replace("_", "-")


def check_smmodelparallel_training() -> bool:
    """Return True in a job that SageMaker's model parallel library divides: its parameters name partitions."""
    try:
        hyperparameters = json.loads(OldNamesEnvironment.read().hyperparameters or "{}")
        parameters = hyperparameters.get("mp_parameters") or {}
        return "partitions" in (json.loads(parameters) if isinstance(parameters, str) else parameters)
    except (ValueError, AttributeError, TypeError):
        return False


def get_region() -> str | None:
    """Return the region in AWS_REGION; None if it is unset or blank."""
    return OldNamesEnvironment.read().region


def get_aws_region_from_processing_job_arn(processing_job_arn: str) -> str:
    return processing_job_arn.split(":")[3]


# Values


def make_numpy_array(x: Any) -> Any:
    """Return an array: of one element for a number or text; of a list's elements; of one object for a dict.

    Raises:
        SMDebugTypeError: It is anything else.
    """
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, (tuple, list)):
        return np.asarray(x)
    if isinstance(x, dict):
        return np.array(x)
    raise SMDebugTypeError(f"No array can be made of {type(x)}. Hand over a number, a text, a list or an array.")


def validate_custom_tensor_value(tensor_value: Any, make_numpy_fn: Callable[[Any], Any]) -> bool:
    """Return True if an array can be made of the value."""
    try:
        make_numpy_fn(tensor_value)
    except TypeError:
        get_logger().warning(f"No array can be made of {type(tensor_value)}: not saved.")
        return False
    return True


def size_and_shape(t: Any) -> tuple[int, Any]:
    """Return (bytes, shape) of an array; (bytes, [length]) of bytes or a text."""
    if isinstance(t, (bytes, str)):
        return len(t), [len(t)]
    return t.nbytes, t.shape


# Lists, texts, steps


def flatten(lis: Iterable[Any]) -> list[Any]:
    """Return the elements of nested lists."""
    found: list[Any] = []
    for each in lis:
        found.extend(flatten(each) if isinstance(each, (list, tuple)) else [each])
    return found


def split(comma_separated_string: str) -> list[str]:
    """Return the parts between commas: `"a, b"` -> `["a", "b"]`."""
    return [part.strip() for part in comma_separated_string.split(",")]


def merge_two_dicts(x: Mapping[Any, Any], y: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return both in one. If both have a key, `y`'s value holds."""
    return {**x, **y}


def index(sorted_list: Sequence[Any], elem: Any) -> int:
    """Return the place of an element.

    Raises:
        SMDebugValueError: The list lacks it.
    """
    place = bisect.bisect_left(sorted_list, elem)
    if place < len(sorted_list) and sorted_list[place] == elem:
        return place
    raise SMDebugValueError(f"Could not find {elem} in the list")


def match_inc(tname: str, include: Iterable[str | re.Pattern[str]]) -> bool:
    """Return True if any of the regexes is found in the name."""
    return any((name_pattern(regex) if isinstance(regex, str) else regex).search(tname) for regex in include)


def step_in_range(range_steps: tuple[int | None, int | None], step: int) -> bool:
    """Return True for a step in [begin, end) of (begin, end). None bounds nothing."""
    begin, end = range_steps
    return (begin is None or step >= begin) and (end is None or step < end)


def load_json_as_dict(s: str | None) -> Any:
    """Return the value in a JSON text; None for None.

    Raises:
        ValueError: It is not JSON.
    """
    return None if s is None else json.loads(s)


__getattr__ = not_offered.attribute_of(__name__)
