"""Profiles of the Python functions of a training by py-spy, which reads its memory from a process of its own.

Nothing runs in the training for it, so that its functions take no longer. py-spy takes a part of a second to start: a
window should hold some seconds. It is asked for by its name in `profilerconfig.json`, and is no dependency.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from trackside.contracts.run.profiling_request import MOST_SECONDS
from trackside.profiling.windows import Recording, Write
from trackside.records.machine.function_times import FUNCTIONS, FunctionTime, encode_functions

STACKS = "stacks.txt"  # as flamegraph.pl, speedscope and inferno read them
RATE = 200  # samples a second
_LAST_SECONDS = 10.0  # that py-spy may take to write its file
_SET_PTRACER = 0x59616D61  # of prctl: the process that may look into this one
_FRAME = re.compile(r"(?P<name>.*?) \((?P<file>.*?)(?::(?P<line>\d+))?\)")


def begin_outside_profile(warn: Callable[[str], object] = lambda text: None) -> Recording:
    """Begin a profile of this process by py-spy.

    Args:
        warn: Shows why there is no profile in the end.

    Raises:
        ImportError: py-spy is not installed.
    """
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        raise ImportError("py-spy is not installed: pip install py-spy, or use the profiler cprofile")
    return _Outside(program, warn)


class _Outside:
    """py-spy at work."""

    def __init__(self, program: str, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._folder = tempfile.mkdtemp(prefix="trackside-py-spy-")
        command = [
            program,
            "record",
            "--pid",
            str(os.getpid()),
            "--format",
            "raw",
            "--rate",
            str(RATE),
            "--nonblocking",
        ]
        command += ["--duration", str(round(MOST_SECONDS)), "--output", f"{self._folder}/{STACKS}"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _let_look(self._process.pid)

    def stop(self) -> Write | None:
        """End it; see `Recording`."""
        with suppress(OSError):
            self._process.send_signal(signal.SIGINT)
        return self._write

    def _write(self, folder: Path) -> None:
        try:
            _, errors = self._process.communicate(timeout=_LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, errors = self._process.communicate()
        _let_look(0)
        stacks = Path(self._folder, STACKS)
        text = stacks.read_text("utf-8", errors="replace") if stacks.exists() else ""
        shutil.rmtree(self._folder, ignore_errors=True)
        if not text:
            lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
            self._warn(f"py-spy took no sample: {'; '.join(lines[:2]) or 'the window was too short for its start'}")
            return
        (folder / STACKS).write_text(text, "utf-8")
        (folder / FUNCTIONS).write_bytes(encode_functions(functions_of(text)))


def functions_of(stacks: str) -> Iterator[FunctionTime]:
    """Yield the functions of sampled stacks with their seconds. Calls are not known: their number is that of samples.

    Args:
        stacks: Lines of a stack, outermost first, and the number of its samples: `main (a.py:3);f (a.py:7) 12`.
    """
    own: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [match for part in stack.split(";") if (match := _FRAME.fullmatch(part))]
        if not frames or not count.isdigit():
            continue
        found = [(match["file"], match["name"]) for match in frames]
        for key, match in zip(found, frames, strict=True):
            number = int(match["line"] or 0)
            first[key] = min(first.get(key, number), number)
        own[found[-1]] += int(count)
        total.update(dict.fromkeys(found, int(count)))  # one that calls itself counts once
    for key, samples in total.items():
        file, name = key
        yield FunctionTime(file, first[key], name, samples, own[key] / RATE, samples / RATE)


def _let_look(process: int) -> None:
    """Allow a process to read this one's memory, where Linux allows that to ancestors only; 0: none."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PTRACER, process, 0, 0, 0)
