"""Runs deployed functions: the code and layers that lie in moto's Lambda backend, in processes that are kept warm."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.environment import inherited
from trackside_localaccount.background import Background
from trackside_localaccount.function_files import FunctionFiles, lay_out_runtime, unpack
from trackside_localaccount.function_log import FunctionLog
from trackside_localaccount.journal import Journal
from trackside_localaccount.orphans import OrphanKiller
from trackside_localaccount.rights.accesses import Access
from trackside_localaccount.rights.rights import Rights
from trackside_localaccount.sandbox import FunctionSettings, Outcome, Sandbox

_LOG_CALLS = ("logs:CreateLogStream", "logs:PutLogEvents")
ASYNCHRONOUS_RETRIES = 2  # https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html


@dataclass(frozen=True)
class LambdaSettings:
    """Where files go, and what AWS_* variables every function sees. `retry_seconds`: the pause before a retry, which
    takes a minute in Lambda."""

    folder: Path
    environment: Mapping[str, str]
    retry_seconds: float


class LambdaRuntime:
    """All functions of the account. `send_failure(arn, body, attributes)` delivers to a dead-letter queue or topic."""

    def __init__(
        self,
        settings: LambdaSettings,
        *,
        background: Background,
        journal: Journal,
        send_failure: Callable[[str, str, Mapping[str, str]], None],
        orphans: OrphanKiller,
        rights: Rights,
    ) -> None:
        self._rights = rights
        self._settings = settings
        self._background = background
        self._journal = journal
        self._send_failure = send_failure
        self._orphans = orphans
        self._runtime = lay_out_runtime(settings.folder / "runtime")
        self._lock = threading.Lock()
        self._unpacking = threading.Lock()
        self._idle: dict[str, list[Sandbox]] = {}
        self._busy: set[Sandbox] = set()
        self._files: dict[str, FunctionFiles] = {}
        self._is_closed = False

    def invoke(self, function: Any, payload: bytes) -> Outcome:
        """Run moto's `LambdaFunction` with that event, and wait."""
        sandbox = self._take(function)
        outcome = sandbox.invoke(payload)
        self._give_back(sandbox)
        self._journal.write(
            "lambda",
            function=function.function_name,
            request_id=outcome.request_id,
            error=outcome.error_type or "none",
            cold=outcome.is_cold,
            milliseconds=round(1000 * outcome.duration_seconds),
        )
        return outcome

    def invoke_later(self, function: Any, payload: bytes, *, attempt: int = 1) -> None:
        """The Event invocation: retried twice, then sent to the function's dead-letter queue or failure destination."""

        def run() -> None:
            outcome = self.invoke(function, payload)
            if outcome.succeeded or self._is_closed:
                return
            if attempt <= _retries(function):
                again = _later(self, function, payload, attempt + 1)
                self._background.run(again, after_seconds=self._settings.retry_seconds)
            else:
                self._give_up(function, payload, outcome, attempts=attempt)

        self._background.run(run)

    def pids(self) -> tuple[int, ...]:
        """The processes that are alive, warm or busy."""
        with self._lock:
            return tuple(sandbox.pid for sandbox in self._all())

    def kill(self, sandbox_id: str) -> None:
        """Kill the process of that id, if it still runs."""
        with self._lock:
            found = [sandbox for sandbox in self._all() if sandbox.id == sandbox_id]
        for sandbox in found:
            sandbox.kill()

    def close(self) -> None:
        """Kill every process. An invocation that still runs ends with an error."""
        with self._lock:
            self._is_closed = True
            sandboxes = self._all()
            self._idle.clear()
        for sandbox in sandboxes:
            self._end(sandbox)

    def _all(self) -> list[Sandbox]:
        return [*self._busy, *(sandbox for idle in self._idle.values() for sandbox in idle)]

    # Execution environments -----------------------------------------------------------------------------------------

    def _take(self, function: Any) -> Sandbox:
        settings = self._settings_of(function)
        stale: list[Sandbox] = []
        with self._lock:
            if self._is_closed:
                raise RuntimeError("The local account is closed.")
            idle = self._idle.get(function.function_arn, [])
            stale = [sandbox for sandbox in idle if sandbox.settings != settings]
            fresh = [sandbox for sandbox in idle if sandbox.settings == settings]
            sandbox = fresh.pop() if fresh else self._new(function, settings)
            self._idle[function.function_arn] = fresh
            self._busy.add(sandbox)
        for old in stale:
            self._end(old)
        return sandbox

    def _new(self, function: Any, settings: FunctionSettings) -> Sandbox:
        log = FunctionLog(
            function, self._settings.folder, journal=self._journal, is_kept=self._may(function, *_LOG_CALLS)
        )
        sandbox = Sandbox(settings, log=log)
        self._orphans.add(sandbox.pid)
        return sandbox

    def _end(self, sandbox: Sandbox) -> None:
        sandbox.close()
        self._orphans.remove(sandbox.pid)

    def _give_back(self, sandbox: Sandbox) -> None:
        with self._lock:
            self._busy.discard(sandbox)
            keep = not (sandbox.is_broken or self._is_closed)
            if keep:
                self._idle.setdefault(sandbox.settings.arn, []).append(sandbox)
        if not keep and not self._is_closed:
            self._end(sandbox)

    def _settings_of(self, function: Any) -> FunctionSettings:
        files = self._files_of(function)
        own = {
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_LOG_GROUP_NAME": function.logs_group_name,
            "AWS_LAMBDA_LOG_STREAM_NAME": "local",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "LAMBDA_TASK_ROOT": str(files.task),
            "LAMBDA_RUNTIME_DIR": str(self._runtime),
            "_HANDLER": function.handler,
            "PATH": inherited().get("PATH", ""),
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
        }
        return FunctionSettings(
            name=function.function_name,
            arn=function.function_arn,
            handler=function.handler,
            timeout_seconds=float(function.timeout),
            import_path=(*files.import_path, self._runtime),
            environment={
                **own,
                **self._settings.environment,
                **self._rights.environment_of(function.role, function.function_name),
                **function.environment_vars,
            },
        )

    def _may(self, function: Any, *actions: str) -> bool:
        """Return whether a function's role may write its log, which Lambda does in its name."""
        group = f"arn:aws:logs:{function.region}:{function.account_id}:log-group:{function.logs_group_name}"
        accesses = (Access(action, f"{group}:log-stream:stream") for action in actions)
        return not self._rights.role_refusal(function.role, function.function_name, *accesses)

    def _files_of(self, function: Any) -> FunctionFiles:
        layers = _layer_contents(function)
        digest = hashlib.sha256(function.code_bytes)
        for layer in layers:
            digest.update(hashlib.sha256(layer).digest())
        key = digest.hexdigest()[:16]
        with self._unpacking:
            if key not in self._files:
                folder = self._settings.folder / "functions" / key
                shutil.rmtree(folder, ignore_errors=True)
                self._files[key] = unpack(function.code_bytes, layers, folder)
            return self._files[key]

    # Failures -------------------------------------------------------------------------------------------------------

    def _may_send(self, function: Any, arn: str) -> bool:
        action = "sqs:SendMessage" if arn.split(":")[2] == "sqs" else "sns:Publish"
        return not self._rights.role_refusal(function.role, function.function_name, Access(action, arn))

    def _give_up(self, function: Any, payload: bytes, outcome: Outcome, *, attempts: int) -> None:
        self._journal.write("lambda-gave-up", function=function.function_name, error=outcome.error_type)
        event, answer = payload.decode(), outcome.payload.decode(errors="replace")
        queue = (getattr(function, "dead_letter_config", None) or {}).get("TargetArn")
        if queue and self._may_send(function, queue):
            attributes = {"RequestID": outcome.request_id, "ErrorCode": "200", "ErrorMessage": _message(answer)}
            self._send_failure(queue, event, attributes)
        destination = _invoke_config(function).get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
        if destination and self._may_send(function, destination):
            record = {
                "version": "1.0",
                "requestContext": {
                    "requestId": outcome.request_id,
                    "functionArn": f"{function.function_arn}:$LATEST",
                    "condition": "RetriesExhausted",
                    "approximateInvokeCount": attempts,
                },
                "requestPayload": json.loads(event),
                "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
                "responsePayload": json.loads(answer or "null"),
            }
            self._send_failure(destination, json.dumps(record), {})


def _later(runtime: LambdaRuntime, function: Any, payload: bytes, attempt: int) -> Callable[[], None]:
    return lambda: runtime.invoke_later(function, payload, attempt=attempt)


def _invoke_config(function: Any) -> Mapping[str, Any]:
    config: Mapping[str, Any] = function.event_invoke_config[-1].config if function.event_invoke_config else {}
    return config


def _retries(function: Any) -> int:
    return int(_invoke_config(function).get("MaximumRetryAttempts", ASYNCHRONOUS_RETRIES))


def _message(answer: str) -> str:
    try:
        return str(json.loads(answer).get("errorMessage", ""))[:1000]
    except (ValueError, AttributeError):
        return answer[:1000]


def _layer_contents(function: Any) -> list[bytes]:
    from moto.awslambda.models import lambda_backends

    backend = lambda_backends[function.account_id][function.region]
    found = [backend.layers_versions_by_arn(layer["Arn"]) for layer in function.layers]
    return [version.code_bytes for version in found if version is not None]
