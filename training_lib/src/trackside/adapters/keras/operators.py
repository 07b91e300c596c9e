"""Profiles of TensorFlow's operators, by its own profiler, while a window asks for them."""

from __future__ import annotations

import gzip
import importlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trackside.profiling.windows import Recording, Write

TRACE = "trace.json.gz"
_PICOSECONDS = 1e-6  # of a microsecond
_EVERY_OPERATOR, _NO_PYTHON = 2, 0  # levels of tracing
# `dense/MatMul:MatMul` in a function, `EagerLocalExecute: MatMul` outside of one. Other names are of the runtime.
_OPERATOR = re.compile(r"(?P<place>[^:]+):(?P<type>[A-Za-z_]\w*)|EagerLocalExecute: (?P<eager>(?!__)\w+)")
_OF_XLA = "hlo_op"


def begin_operator_profile() -> Recording | None:
    """Begin a profile of this process. Return None on another backend, or while the script profiles by itself."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or (sys.modules.get("jax") is not None and _backend() == "jax"):
        return None
    folder = tempfile.mkdtemp(prefix="trackside-operators-")
    try:
        return _Operators(tensorflow.profiler.experimental, folder)
    except tensorflow.errors.AlreadyExistsError:
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _backend() -> str:
    keras = sys.modules.get("keras")
    return str(keras.backend.backend()) if keras is not None else ""


class _Operators:
    """TensorFlow's profiler at work. It makes way for one that the script begins: TensorFlow would refuse that."""

    def __init__(self, profiler: Any, folder: str) -> None:
        options = profiler.ProfilerOptions(host_tracer_level=_EVERY_OPERATOR, python_tracer_level=_NO_PYTHON)
        profiler.start(folder, options=options)
        self._profiler, self._folder, self._is_open = profiler, folder, True
        self._before = profiler.start
        profiler.start = self._in_place = self._started

    def stop(self) -> Write | None:
        """End it; see `Recording`."""
        if self._profiler.start is self._in_place:
            self._profiler.start = self._before
        if not self._is_open:
            return None
        self._is_open = False
        self._profiler.stop()

        def write(folder: Path) -> None:
            try:
                events = [event for path in Path(self._folder).rglob("*.xplane.pb") for event in _events(path)]
                with gzip.open(folder / TRACE, "wt", encoding="utf-8", compresslevel=3) as file:
                    json.dump({"displayTimeUnit": "ms", "traceEvents": events}, file)
            finally:
                shutil.rmtree(self._folder, ignore_errors=True)

        return write

    def _started(self, *args: Any, **kwargs: Any) -> Any:
        """Begin the script's own profile."""
        if self._is_open:
            self._is_open = False
            self._profiler.stop(save=False)
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._before(*args, **kwargs)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the operators of a profile of TensorFlow's, as Chrome's trace viewer reads them.

    An event has the type of its operator as its name, as `MatMul`, and that in the program beside it.

    Args:
        path: A file of TensorFlow's format XSpace.
    """
    # TensorFlow's own reader of its files: it offers no other.
    space = importlib.import_module("tensorflow.tsl.profiler.protobuf.xplane_pb2").XSpace()
    space.ParseFromString(path.read_bytes())
    for process, plane in enumerate(space.planes):
        yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": plane.name}}
        names = {number: metadata.name for number, metadata in plane.event_metadata.items()}
        of_xla = {number for number, metadata in plane.stat_metadata.items() if metadata.name == _OF_XLA}
        for line in plane.lines:
            yield {"name": "thread_name", "ph": "M", "pid": process, "tid": line.id, "args": {"name": line.name}}
            for event in line.events:
                name = names.get(event.metadata_id, "")
                found = _OPERATOR.fullmatch(name)
                is_of_xla = any(stat.metadata_id in of_xla for stat in event.stats)
                if found is None and not is_of_xla:
                    continue
                yield {
                    "name": (found["type"] or found["eager"]) if found is not None else name,
                    "args": {"name": name},
                    "cat": "Op",
                    "ph": "X",
                    "pid": process,
                    "tid": line.id,
                    "ts": line.timestamp_ns / 1000 + event.offset_ps * _PICOSECONDS,
                    "dur": event.duration_ps * _PICOSECONDS,
                }
