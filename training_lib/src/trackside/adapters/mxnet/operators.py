"""Profiles of MXNet's operators, by its own profiler, while a window asks for them."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxnet

from trackside.environment import mxnet_profiles_from_start
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace
from trackside.profiling.windows import Recording, Write

TRACE = "trace.json.gz"
_PROFILER: Any = mxnet.profiler
_SET_CONFIG, _SET_STATE, _DUMP = _PROFILER.set_config, _PROFILER.set_state, _PROFILER.dump
_BY_SCRIPT = ("set_config", "set_state", "profiler_set_config", "profiler_set_state", "dump")
_BY_DEFAULT = "profile.json"  # MXNet's own file
_HEAD = '{\n    "traceEvents": [\n'
_COMMA = re.compile(r'^(\{\s*"traceEvents"\s*:\s*\[)?[\s,]*')
_OF_THE_RUNTIME = frozenset({"DeleteVariable", "WaitForVar"})


class OperatorProfiler:
    """MXNet's one profiler. It is the script's own from the first call on that the script makes to it."""

    def __init__(self) -> None:
        self._is_scripts = mxnet_profiles_from_start()
        self._open: _Operators | None = None
        self._is_ours = False  # its file is ours, since a window
        self._scripts_file = ""  # to be mended, since a window

    def listen(self) -> Undo:
        """Take notice of the script's calls from now on. Return the function that ends that."""
        return replace([(_PROFILER, name) for name in _BY_SCRIPT], self._noticed)

    def begin(self) -> Recording | None:
        """Begin a profile of this process. Return None if the script profiles by itself."""
        if self._is_scripts:
            return None
        self._open, self._is_ours = _Operators(), True
        return self._open

    def _noticed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._is_scripts = True
            if self._open is not None:
                self._open.make_way()
                self._open = None
            name = original.__name__
            if self._is_ours and name != "dump":
                self._scripts_file = os.path.abspath(kwargs.get("filename", _BY_DEFAULT))
                if "state" in name:  # without settings, it writes to its default file
                    _SET_CONFIG(filename=_BY_DEFAULT)
                self._is_ours = False
            result = original(*args, **kwargs)
            if name == "dump" and self._scripts_file:
                _mend(Path(self._scripts_file))
            return result

        return call


class _Operators:
    """MXNet's profiler at work."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="trackside-operators-")
        self._file = Path(self._folder, "mxnet.json")
        self._is_open = True
        mxnet.nd.waitall()  # operators of the steps before are none of the window
        _SET_CONFIG(profile_symbolic=True, profile_imperative=True, continuous_dump=False, filename=str(self._file))
        _SET_STATE("run")

    def stop(self) -> Write | None:
        """End it; see `Recording`."""
        if not self._is_open:
            return None
        self._end()

        def write(folder: Path) -> None:
            try:
                events = list(_events(self._file.read_text("utf-8")))
                with gzip.open(folder / TRACE, "wt", encoding="utf-8", compresslevel=3) as file:
                    json.dump({"displayTimeUnit": "ms", "traceEvents": events}, file)
            finally:
                shutil.rmtree(self._folder, ignore_errors=True)

        return write

    def make_way(self) -> None:
        """End it without a profile: the script's own begins."""
        if self._is_open:
            self._end()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        self._is_open = False
        mxnet.nd.waitall()
        _SET_STATE("stop")
        _DUMP()


def _mend(path: Path) -> None:
    """Give a file of the script's the beginning that MXNet writes once in a process: ours was the first."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = path.read_text("utf-8")
        path.write_text(_mended(text), "utf-8")


def _mended(text: str) -> str:
    """Return a profile of MXNet's as JSON: each file but the first lacks its beginning, or has a comma too many."""
    return _COMMA.sub(_HEAD, text, count=1)


def _events(text: str) -> Iterator[dict[str, Any]]:
    """Yield the operators of a profile of MXNet's as events with a duration.

    Args:
        text: A file of its profiler: the beginnings and the ends of operators, by device and thread.
    """
    begun: dict[tuple[Any, ...], list[float]] = {}
    for event in json.loads(_mended(text))["traceEvents"]:
        key = event.get("pid"), event.get("tid"), event.get("name"), event.get("cat")
        if event.get("ph") != "M" and (event.get("cat") != "operator" or key[2] in _OF_THE_RUNTIME):
            continue
        if event.get("ph") == "B":
            begun.setdefault(key, []).append(event["ts"])
        elif event.get("ph") == "E" and begun.get(key):
            start = begun[key].pop()
            yield {
                "name": key[2],
                "cat": "Op",
                "ph": "X",
                "pid": key[0],
                "tid": key[1],
                "ts": start,
                "dur": event["ts"] - start,
            }
        elif event.get("ph") == "M":
            yield event
