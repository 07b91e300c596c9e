"""The judging of one run in a process of its own: a crash, leak or hang touches no other run."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.deployment.custom_rule_job import job_variables
from trackside.contracts.deployment.lease import LeaseRecord
from trackside.environment import FLEET_PREFIX, inherited
from trackside.evaluation import exit_codes
from trackside.evaluation.worker_lease import news_line, until_line

# Exit codes that judging again from the last checkpoint would not change: see `exit_codes`.
FINAL = frozenset({exit_codes.BAD_CONFIGURATION, exit_codes.RULE_CRASHED})


@dataclass(frozen=True)
class Ending:
    """The end of a judging process. `message` is the exit message that a container would have left."""

    exit_code: int
    message: str

    @property
    def was_judged(self) -> bool:
        """True if the run was judged to its end, or as far as it was complete when the process was asked to end."""
        return self.exit_code == exit_codes.JUDGED

    @property
    def will_repeat(self) -> bool:
        """True if judging again would end in the same way."""
        return self.exit_code in FINAL


class Judging:
    """The judging process of one lease. It ends by itself when this process does, and when its lease is over.

    Raises:
        OSError: The process cannot be started.
    """

    def __init__(self, lease: LeaseRecord, command: Sequence[str], *, poll_seconds: float | None = None) -> None:
        """Start the process. With `poll_seconds` None it polls as often as this process is set to."""
        self.lease = lease
        self.must_end = False
        self._ml_root = Path(tempfile.mkdtemp(prefix="trackside-run-"))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, bufsize=0, env=_environment(lease, self._ml_root, poll_seconds)
        )
        if self._process.stdin:
            os.set_blocking(self._process.stdin.fileno(), False)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def holds_until(self, moment: float) -> None:
        """Send the process the end of its lease, in seconds since the epoch."""
        self._send(until_line(moment))

    def look_now(self) -> None:
        """Notify the process that the run was written to."""
        self._send(news_line())

    def end_soon(self) -> None:
        """Ask the process to judge complete steps, and to end."""
        self.must_end = True
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def ended(self) -> Ending | None:
        """Return the end of the process, or None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        message = ""
        with contextlib.suppress(OSError):
            message = (self._ml_root / "output" / "message").read_text(encoding="utf-8", errors="replace")
        return Ending(code, message)

    def close(self) -> None:
        """Remove the files of a process that has ended."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        shutil.rmtree(self._ml_root, ignore_errors=True)

    def _send(self, line: bytes) -> None:
        if not self._process.stdin:
            return
        with contextlib.suppress(OSError):  # it has ended: `ended` returns the result
            # A short line is written whole or not at all. If not, the process has read nothing for hours: it hangs.
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
        **job_variables(lease.job),
        "TRACKSIDE_ML_ROOT": str(ml_root),
        "TRACKSIDE_LIFELINE": "1",
    }
