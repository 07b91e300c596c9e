"""Runs scripts in processes that have a framework imported already, for tests that are not about how a Python starts.

A real `python train.py` spends three seconds on `import torch` and the first optimizer. Here one process a test
session does that once, and each script gets a fork of it: a process of its own with its own arguments, environment,
working folder, standard streams, signals, exit handlers and exit status. `import torch` is still what attaches a
capture, and a traceback has no frame of ours; `test_warm_python.py` holds both ways against one another.

Not the same, hence for tests with a real Python: what is imported before the script begins, Python's options and
variables, the parent's process id, the hash seed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

ROOT = Path(__file__).parents[1]
# What is read while Python starts or libraries are loaded, which is over here.
READ_AT_START = ("PYTHON", "OMP_", "MKL_", "KMP_", "TORCH", "PYTORCH", "LD_")
MAY_BE_SET = ("PYTHONPATH",)
FIXED = {"OMP_NUM_THREADS": "1"}


class WarmProcess:
    """A script at work; ends with the `with` block at the latest."""

    def __init__(self, pid: int, status_pipe: int, script: str, said: Sequence[Future[str]] = ()) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status_pipe = status_pipe
        self._script = script
        self._said = said

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal as `subprocess` has it, or None while the script runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float = HANGS_SECONDS) -> int:
        """Wait for the end and return the exit status."""
        if self.returncode is None:
            if not select.select([self._status_pipe], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._script, timeout)
            status = os.read(self._status_pipe, 32)
            os.close(self._status_pipe)
            assert status, "the process that scripts are forked from has died"
            self.returncode = int(status)
        return self.returncode

    def finish(self) -> subprocess.CompletedProcess[str]:
        """Wait for the end of a captured script and of all who write to its streams; return what was written."""
        try:
            returncode = self.wait()
        finally:
            self.kill()
        stdout, stderr = (said.result(HANGS_SECONDS) for said in self._said)
        return subprocess.CompletedProcess([sys.executable, self._script], returncode, stdout, stderr)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()
        self.wait()


class WarmPython:
    """Starts scripts; the process that they are forked from begins with the first one.

    Args:
        framework: The framework that it has imported: see `warm_fork_server.py`.
        options: Options of its Python.
    """

    def __init__(self, framework: str = "torch", options: Sequence[str] = ()) -> None:
        self._framework, self._options = framework, options
        self._connection: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._readers = ThreadPoolExecutor(32, "warm-python-reader")

    def run(
        self,
        script: str | Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)`."""
        return self.start_captured(script, *arguments, env=env, cwd=cwd).finish()

    def start_captured(
        self,
        script: str | Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> WarmProcess:
        """Start a script whose output `finish` returns."""
        pipes = [os.pipe(), os.pipe()]
        (_, stdout), (_, stderr) = pipes
        try:
            process = self.start(script, *arguments, env=env, cwd=cwd, stdout=stdout, stderr=stderr)
        finally:
            os.close(stdout)
            os.close(stderr)
        process._said = [self._readers.submit(_read_all, reads) for reads, _ in pipes]
        return process

    def start(
        self,
        script: str | Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdout: IO[bytes] | int | None = None,
        stderr: IO[bytes] | int | None = None,
        new_session: bool = False,
    ) -> WarmProcess:
        """As `subprocess.Popen`; streams that are not given go nowhere."""
        environment = dict(inherited() if env is None else env)
        _refuse_what_is_read_at_start(environment)
        order = {
            "script": os.path.abspath(script),
            "arguments": arguments,
            "environment": environment,
            "cwd": os.path.abspath(cwd or Path.cwd()),
            "new_session": new_session,
        }
        connection = self._connect()
        status, status_of_child = os.pipe()
        with open(os.devnull, "r+b", buffering=0) as nowhere:
            streams = [nowhere if stream is None else stream for stream in (None, stdout, stderr)]
            descriptors = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
            socket.send_fds(connection, [json.dumps(order).encode()], [*descriptors, status_of_child])
        os.close(status_of_child)
        return WarmProcess(int(connection.recv(32)), status, str(script))

    def close(self) -> None:
        """End the process that scripts are forked from; scripts at work go on."""
        if self._connection is not None and self._server is not None:
            self._connection.shutdown(socket.SHUT_RDWR)  # forks of this process may hold it open, as workers of loaders
            self._connection.close()
            self._server.wait(HANGS_SECONDS)
        self._readers.shutdown()

    def _connect(self) -> socket.socket:
        if self._connection is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            code = f"from tests.warm_fork_server import serve; serve({theirs.fileno()}, {self._framework!r})"
            environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
            self._server = subprocess.Popen(
                [sys.executable, *self._options, "-c", code], cwd=ROOT, env=environment | FIXED,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            theirs.close()
            ours.settimeout(HANGS_SECONDS)
            assert ours.recv(32) == b"ready", f"{self._framework} cannot be imported: see above"
            self._connection = ours
        return self._connection


def _refuse_what_is_read_at_start(environment: Mapping[str, str]) -> None:
    own = inherited() | FIXED
    for name, value in environment.items():
        if name.startswith(READ_AT_START) and name not in MAY_BE_SET and value != own.get(name):
            raise ValueError(f"{name} is read while Python starts: use a real one")


def _read_all(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as stream:
        return stream.read()
