"""What a reader may not do: hang, take memory without bound, or open anything outside the run."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

MOST_CPU_SECONDS = 5.0
MOST_SECONDS = 10.0
MOST_MEMORY_BYTES = 512 << 20  # beyond what the process held before

_FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "pickle.find_class")


class Hang(BaseException):
    """A reader took too long. No `Exception`: nothing on the way may swallow it."""


@contextmanager
def time_limits(*, cpu_seconds: float = MOST_CPU_SECONDS, seconds: float = MOST_SECONDS) -> Iterator[None]:
    """Raises `Hang` in the main thread when either is used up. Errors: `Hang`."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang("CPU time" if number == signal.SIGPROF else "time on the clock")

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def memory_limit(most_bytes: int = MOST_MEMORY_BYTES) -> Iterator[None]:
    """Makes every allocation beyond `most_bytes` more than now a `MemoryError`."""
    held = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class OpenedFiles:
    """Notes every file and folder that is opened outside of what is allowed. One for a process: hooks stay."""

    def __init__(self) -> None:
        self.outside: list[str] = []
        self._allowed: tuple[str, ...] | None = None
        self._is_busy = False
        self._own = tuple(
            os.path.realpath(path)
            for path in {sys.prefix, sys.base_prefix, *sys.path, "/usr", "/etc/localtime", "/proc", "/sys", "/dev/null"}
            if path
        )
        sys.addaudithook(self._receive)

    @contextmanager
    def only_below(self, *folders: Path) -> Iterator[None]:
        """Within, what lies elsewhere is noted in `outside`; the interpreter's own files are free."""
        self.outside.clear()
        self._allowed = (*(os.path.realpath(folder) for folder in folders), *self._own)
        try:
            yield
        finally:
            self._allowed = None

    def _receive(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._allowed is None or self._is_busy:
            return
        if event in _FORBIDDEN:
            self.outside.append(f"{event} {arguments[:1]!r}")
        elif event in {"open", "os.listdir", "os.scandir"} and isinstance(arguments[0], (str, bytes)):
            self._is_busy = True
            try:
                follows = not (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_NOFOLLOW)
                self._note(event, os.fsdecode(arguments[0]), follows=follows)
            finally:
                self._is_busy = False

    def _note(self, event: str, path: str, *, follows: bool) -> None:
        real = os.path.realpath(path if follows else os.path.dirname(path))
        if not any(real == folder or real.startswith(f"{folder}/") for folder in self._allowed or ()):
            self.outside.append(f"{event} {real}")
