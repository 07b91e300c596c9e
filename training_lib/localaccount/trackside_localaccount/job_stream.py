"""The output of jobs, in CloudWatch Logs, as people and the SageMaker SDK read it while a job runs.

Group `/aws/sagemaker/TrainingJobs` or `/aws/sagemaker/ProcessingJobs`, stream `<job>/algo-1-<seconds since 1970>`:
https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from moto.logs.exceptions import ResourceAlreadyExistsException
from moto.logs.models import logs_backends

from trackside_localaccount.job_record import Job

_LOOK_EVERY_SECONDS = 0.2
_MOST_LINES_AT_ONCE = 1000  # PutLogEvents takes 10,000
_MOST_CHARACTERS = 200_000  # of a line; PutLogEvents takes 256 KB


class JobStream:
    """Copies a job's log file to its stream, line by line, until `close`."""

    def __init__(self, job: Job, *, clock: Callable[[], float] = time.time) -> None:
        self._group = f"/aws/sagemaker/{job.kind.name}Jobs"
        self._stream = f"{job.name}/algo-1-{int(clock())}"
        self._region, self._account = job.arn.split(":")[3:5]
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._follow, args=(job.log_file,), name=f"log of {job.name}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait until all output is stored."""
        self._ended.set()
        self._thread.join()

    def _follow(self, file: Path) -> None:
        rest = b""
        with file.open("rb") as opened:
            while True:
                is_last = self._ended.wait(_LOOK_EVERY_SECONDS)
                *lines, rest = (rest + opened.read()).split(b"\n")
                if is_last and rest:
                    lines.append(rest)
                self._put([line.decode(errors="replace")[:_MOST_CHARACTERS] for line in lines])
                if is_last:
                    return

    def _put(self, lines: list[str]) -> None:
        if not lines:
            return
        backend = logs_backends[self._account][self._region]
        for create in (
            lambda: backend.create_log_group(self._group, {}),
            lambda: backend.create_log_stream(self._group, self._stream),
        ):
            with contextlib.suppress(ResourceAlreadyExistsException):
                create()
        moment = int(1000 * self._clock())
        events = [{"timestamp": moment, "message": line or " "} for line in lines]  # an empty one is refused by AWS
        for start in range(0, len(events), _MOST_LINES_AT_ONCE):
            backend.put_log_events(self._group, self._stream, events[start : start + _MOST_LINES_AT_ONCE])
