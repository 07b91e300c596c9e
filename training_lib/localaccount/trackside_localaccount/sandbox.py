"""One execution environment of a function: a process under AWS's own runtime client, one invocation at a time."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trackside_localaccount.runtime_api import INITIALIZED, Answer, Invocation, RuntimeApi

# Lambda gives 10 s, on a machine of its own; this one may be busy with a training run.
INIT_SECONDS = 60.0
FUNCTION_VARIABLE = "AWS_SDK_UA_APP_ID"  # by it the SDK says with each call which process it is
_EXITED = Answer("", b"", "Runtime.ExitError")
# -S keeps this environment's site-packages out of the function's sight.
_START = (
    "import json, sys; sys.path = json.loads(sys.argv.pop(1)) + [p for p in sys.path if p]; "
    "from awslambdaric.__main__ import main; main(['awslambdaric', sys.argv[1]])"
)


@dataclass(frozen=True)
class FunctionSettings:
    """The settings of an execution environment. Equal settings may share one."""

    name: str
    arn: str
    handler: str
    timeout_seconds: float
    import_path: tuple[Path, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """The end of one invocation."""

    request_id: str
    payload: bytes
    error_type: str
    is_cold: bool
    duration_seconds: float

    @property
    def succeeded(self) -> bool:
        """The handler returned."""
        return not self.error_type


class Sandbox:
    """Starts at once; a line of output goes to `log`. Broken after an error of the environment, not of the handler."""

    def __init__(self, settings: FunctionSettings, *, log: Callable[[str], None]) -> None:
        self.settings = settings
        self.id = uuid.uuid4().hex
        self.is_broken = False
        self._is_initialized = False
        self._log = log
        self._api = RuntimeApi()
        import_path = json.dumps([str(path) for path in settings.import_path])
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-s", "-u", "-c", _START, import_path, settings.handler],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=settings.import_path[0],
            env={**settings.environment, "AWS_LAMBDA_RUNTIME_API": self._api.address, FUNCTION_VARIABLE: self.id},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read_log, name=f"log of {settings.name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def invoke(self, payload: bytes, *, request_id: str | None = None) -> Outcome:
        """Run the handler. Never raises for what the function does: its errors are outcomes."""
        request_id = request_id or str(uuid.uuid4())
        is_cold, begun = not self._is_initialized, time.monotonic()
        self._log(f"START RequestId: {request_id} Version: $LATEST")
        answer = self._initialize() or self._run(payload, request_id)
        took = time.monotonic() - begun
        self._log(f"END RequestId: {request_id}")
        self._log(f"REPORT RequestId: {request_id}\tDuration: {1000 * took:.2f} ms" + ("\tInit" if is_cold else ""))
        return Outcome(request_id, answer.payload, answer.error_type, is_cold, took)

    def kill(self) -> None:
        """The process dies here and now, whatever it is at; its invocation ends with an error."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process group, and wait for it and for its last output."""
        self.is_broken = True
        self.kill()
        self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()
        self._api.close()

    def _initialize(self) -> Answer | None:
        """Return the error that keeps the function from running, or None."""
        if self._is_initialized:
            return None
        try:
            answer = self._api.answers.get(timeout=INIT_SECONDS)
        except queue.Empty:
            return self._fail("", "Sandbox.Timedout", f"Init did not end within {INIT_SECONDS:g} s")
        if answer is INITIALIZED:
            self._is_initialized = True
            return None
        self.is_broken = True
        return self._exited("") if answer is _EXITED else answer

    def _run(self, payload: bytes, request_id: str) -> Answer:
        seconds = self.settings.timeout_seconds
        deadline_ms = int(1000 * (time.time() + seconds))
        self._api.send(Invocation(request_id, payload, self.settings.arn, deadline_ms))
        try:
            answer = self._api.answers.get(timeout=seconds)
        except queue.Empty:
            return self._fail(request_id, "Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds")
        return self._exited(request_id) if answer is _EXITED else answer

    def _exited(self, request_id: str) -> Answer:
        code = self._process.wait()
        how = f"signal: {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return self._fail(request_id, "Runtime.ExitError", f"Error: Runtime exited with error: {how}")

    def _fail(self, request_id: str, error_type: str, what: str) -> Answer:
        self.is_broken = True
        message = f"RequestId: {request_id} {what}"
        self._log(message)
        return Answer(request_id, json.dumps({"errorType": error_type, "errorMessage": message}).encode(), error_type)

    def _read_log(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._log(line.decode(errors="replace").rstrip("\r\n"))
        self._process.wait()
        self._api.answers.put(_EXITED)
