"""Times in several units, and facts in the names of the profiler's files."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.core.access_layer.s3handler import ListRequest, S3Handler
from smdebug.core.utils import is_s3
from trackside.speed.performance.timelines import TimelineFile

_SYSTEM_FILE = re.compile(r".+/system/.+/(?P<second>\d{10})\.(?P<node>algo-\d+)\.(?:json|tms)")
_METADATA_FILE = re.compile(r"(?P<node>.*)_(?P<start>\d+)_(?P<end>\d+)\.metadata")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SHOWN = "%Y-%m-%dT%H:%M:%S:%f"


class TimeUnits(Enum):
    """The unit of a time since the epoch."""

    SECONDS = 1
    MILLISECONDS = 2
    MICROSECONDS = 3
    NANOSECONDS = 4


_NANOSECONDS = {
    TimeUnits.SECONDS: 1_000_000_000,
    TimeUnits.MILLISECONDS: 1_000_000,
    TimeUnits.MICROSECONDS: 1000,
    TimeUnits.NANOSECONDS: 1,
}


def convert_utc_timestamp_to_nanoseconds(timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS) -> int:
    return int(timestamp * _NANOSECONDS[unit])


def convert_utc_timestamp_to_microseconds(timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS) -> float:
    if unit == TimeUnits.NANOSECONDS:
        return timestamp / 1000
    return int(timestamp * (_NANOSECONDS[unit] // 1000))


def convert_utc_timestamp_to_seconds(timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS) -> float:
    if unit == TimeUnits.NANOSECONDS:
        return timestamp / _NANOSECONDS[TimeUnits.SECONDS]
    return int(timestamp * _NANOSECONDS[unit] / _NANOSECONDS[TimeUnits.SECONDS])


def convert_utc_datetime_to_nanoseconds(timestamp_datetime: datetime) -> int:
    return convert_utc_timestamp_to_nanoseconds(timestamp_datetime.timestamp(), TimeUnits.SECONDS)


def convert_utc_datetime_to_microseconds(timestamp_datetime: datetime) -> float:
    return convert_utc_timestamp_to_microseconds(timestamp_datetime.timestamp(), TimeUnits.SECONDS)


def us_since_epoch_to_human_readable_time(us_since_epoch: float) -> str:
    return (_EPOCH + timedelta(microseconds=us_since_epoch)).strftime(_SHOWN)


def ns_since_epoch_to_human_readable_time(ns_since_epoch: float) -> str:
    return us_since_epoch_to_human_readable_time(ns_since_epoch / 1000)


def is_valid_tfprof_tracefilename(filename: str) -> bool:
    """Return True for a timeline that TensorFlow's profiler wrote."""
    return filename.endswith("trace.json.gz") and "tensorflow/detailed_profiling" in filename


def is_valid_tracefilename(filename: str) -> bool:
    """Return True for a closed timeline: `framework/pevents/<hour>/<end>_<node>_<source>.json`."""
    return filename.endswith(".json") and "pevents" in filename and filename.count("_") >= 2


def validate_system_profiler_file(filename: str) -> bool:
    """Return True for a file of a machine's samples: `system/incremental/<hour>/<second>.algo-1.json`."""
    return _SYSTEM_FILE.match(filename) is not None


def get_node_id_from_tracefilename(filename: str) -> str:
    """Return the node in the name of a timeline; "" for another file."""
    if is_valid_tracefilename(filename):
        return filename.rpartition("/")[2].split("_")[1]
    return read_tf_profiler_metadata_file(filename)[0]


def get_timestamp_from_tracefilename(filename: str) -> int:
    """Return the end of a timeline's last event in microseconds since the epoch; 0 if it is not known."""
    if is_valid_tracefilename(filename):
        return int(filename.rpartition("/")[2].split("_")[0])
    return int(read_tf_profiler_metadata_file(filename)[2])


def get_node_id_from_system_profiler_filename(filename: str) -> str | None:
    match = _SYSTEM_FILE.match(filename)
    return match["node"] if match else None


def get_utctimestamp_us_since_epoch_from_system_profiler_file(filename: str) -> int | None:
    """Return the minute that a file of samples covers, in microseconds since the epoch."""
    match = _SYSTEM_FILE.match(filename)
    return int(match["second"]) * 1_000_000 if match else None


def read_tf_profiler_metadata_file(file_path: str) -> tuple[str, str, str]:
    """Return (node, start, end) of a timeline of TensorFlow's profiler, in microseconds; ("", "0", "0") if unknown."""
    if is_valid_tfprof_tracefilename(file_path):
        folder = file_path.rsplit("/", 4)[0]
        on_s3, bucket, prefix = is_s3(folder)
        names = (
            S3Handler.list_prefix(ListRequest(bucket or "", prefix or ""))
            if on_s3
            else map(str, Path(folder).rglob("*"))
        )
        for name in sorted(names):
            if match := _METADATA_FILE.fullmatch(name.rpartition("/")[2]):
                return match["node"], match["start"], match["end"]
    return "", "0", "0"


def timeline_at(path: str) -> TimelineFile:
    """Return the timeline at a local path, whatever it is called."""
    name = path.rpartition("/")[2]
    if is_valid_tfprof_tracefilename(path):
        _, start, end = read_tf_profiler_metadata_file(path)
        return TimelineFile(name, name.partition(".")[0], "", int(end), int(start))
    return TimelineFile(name, get_node_id_from_tracefilename(path), "", get_timestamp_from_tracefilename(path))


def str2bool(v: Any) -> bool:
    """Return True or False, also for the texts that `distutils` knew."""
    if isinstance(v, bool):
        return v
    for truth, spellings in ((True, "y yes t true on 1"), (False, "n no f false off 0")):
        if v.lower() in spellings.split():
            return truth
    raise ValueError(f"invalid truth value {v.lower()!r}")


__getattr__ = not_offered.attribute_of(__name__)
