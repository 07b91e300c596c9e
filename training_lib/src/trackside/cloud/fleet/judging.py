"""One run that a worker judges, in a process of its own: what crashes, leaks or hangs there touches no other run."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.deployment.lease import LeaseRecord
from trackside.environment import FLEET_PREFIX, inherited
from trackside.evaluation import exit_codes
from trackside.evaluation.lifeline import news_line, until_line

# What judging again from the last checkpoint would not change: see `exit_codes`.
FINAL = frozenset({exit_codes.BAD_CONFIGURATION, exit_codes.RULE_CRASHED})


@dataclass(frozen=True)
class Ending:
    """How a judging process ended. `message` is what the container would have left as its exit message."""

    exit_code: int
    message: str

    @property
    def was_judged(self) -> bool:
        """To the end of the run, unless it was asked to leave off before."""
        return self.exit_code == exit_codes.JUDGED

    @property
    def will_repeat(self) -> bool:
        """To judge again would change nothing."""
        return self.exit_code in FINAL


class Judging:
    """The process. It ends by itself when this one does, and once its lease is over."""

    def __init__(self, lease: LeaseRecord, command: Sequence[str], *, poll_seconds: float | None = None) -> None:
        """Starts it. `poll_seconds` None: as this process was told. Errors: `OSError`."""
        self.lease = lease
        self.was_asked_to_end = False
        self._ml_root = Path(tempfile.mkdtemp(prefix="trackside-run-"))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, bufsize=0, env=_environment(lease, self._ml_root, poll_seconds)
        )
        if self._process.stdin:
            os.set_blocking(self._process.stdin.fileno(), False)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def holds_until(self, moment: float) -> None:
        """Tells it how long its lease holds, in seconds since the epoch."""
        self._tell(until_line(moment))

    def look_now(self) -> None:
        """Tells it that the run was written to."""
        self._tell(news_line())

    def leave_off(self) -> None:
        """Asks it to judge what is complete, and to end."""
        self.was_asked_to_end = True
        self._process.terminate()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()

    def ended(self) -> Ending | None:
        """None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        message = ""
        with contextlib.suppress(OSError):
            message = (self._ml_root / "output" / "message").read_text(encoding="utf-8", errors="replace")
        return Ending(code, message)

    def close(self) -> None:
        """Of a process that has ended: leaves nothing behind."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        shutil.rmtree(self._ml_root, ignore_errors=True)

    def _tell(self, line: bytes) -> None:
        if not self._process.stdin:
            return
        with contextlib.suppress(OSError):  # it has ended, which `ended` will tell
            # So short a line is written whole or not at all: then nobody has read for hours, and nothing judges there.
            if self._process.stdin.write(line) is None:
                self._process.kill()


Judge = Callable[[LeaseRecord], Judging]


def _environment(lease: LeaseRecord, ml_root: Path, poll_seconds: float | None) -> Mapping[str, str]:
    ours = {name: value for name, value in inherited().items() if not name.startswith(FLEET_PREFIX)}
    poll = {"TRACKSIDE_POLL_SECONDS": str(poll_seconds)} if poll_seconds else {}
    return {
        **ours,
        **poll,
        "TRACKSIDE_RUN": lease.run_uri,
        "TRAINING_JOB_NAME": lease.job.name,
        "TRAINING_JOB_ARN": lease.job.arn,
        "TRACKSIDE_ML_ROOT": str(ml_root),
        "TRACKSIDE_LIFELINE": "1",
    }
