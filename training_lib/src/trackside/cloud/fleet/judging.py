"""The judging of one run in a process of its own: a crash, leak or hang touches no other run."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.deployment.custom_rule_job import job_variables
from trackside.contracts.deployment.lease import LeaseRecord
from trackside.environment import FLEET_PREFIX, inherited
from trackside.evaluation import exit_codes
from trackside.evaluation.worker_lease import PROGRESS_FILE, news_line, until_line

# Exit codes that judging again from the last checkpoint would not change: see `exit_codes`.
FINAL = frozenset({exit_codes.BAD_CONFIGURATION, exit_codes.RULE_CRASHED})
_OWN_MEMORY = re.compile(rb"^RssAnon:\s+(\d+) kB$", re.MULTILINE)
_FIRST_TO_GO = b"500"  # where the system itself is out of memory, it ends this process before the worker


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

    def __init__(
        self,
        lease: LeaseRecord,
        command: Sequence[str],
        *,
        poll_seconds: float | None = None,
        most_memory_bytes: int = 0,
    ) -> None:
        """Start the process.

        Args:
            lease: The lease of the run.
            command: The command that judges the run which its environment names.
            poll_seconds: Time between two looks for new steps; None: as this process is set to.
            most_memory_bytes: Memory beyond which its allocations fail; 0: no limit.
        """
        self.lease = lease
        self.must_end = False
        self._reason = ""
        self._progress: tuple[float, float] = 0.0, time.monotonic()  # time of the file, and when it was seen
        self._ml_root = Path(tempfile.mkdtemp(prefix="trackside-run-"))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, bufsize=0, env=_environment(lease, self._ml_root, poll_seconds)
        )
        if self._process.stdin:
            os.set_blocking(self._process.stdin.fileno(), False)
        _set_limits(self._process.pid, most_memory_bytes)

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

    @property
    def silent_seconds(self) -> float:
        """Time since the last sign of progress."""
        changed_at, seen_at = self._progress
        with contextlib.suppress(OSError):
            changed_at = (self._ml_root / PROGRESS_FILE).stat().st_mtime
        if changed_at != self._progress[0]:
            seen_at = time.monotonic()
            self._progress = changed_at, seen_at
        return time.monotonic() - seen_at

    @property
    def memory_bytes(self) -> int:
        """Memory of the process that it shares with no other; 0 if unknown."""
        with contextlib.suppress(OSError):
            found = _OWN_MEMORY.search(Path(f"/proc/{self._process.pid}/status").read_bytes())
            return int(found[1]) * 1024 if found else 0
        return 0

    def kill(self, reason: str = "") -> None:
        """End the process at once. `reason` becomes its message."""
        self._reason = reason
        self._process.kill()
        self._process.wait()

    def ended(self) -> Ending | None:
        """Return the end of the process, or None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        message = self._reason
        with contextlib.suppress(OSError):
            message = message or (self._ml_root / "output" / "message").read_text("utf-8", "replace")
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


def _set_limits(pid: int, most_memory_bytes: int) -> None:
    """Limit a process that this one has started, so that it alone fails. Linux only."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import resource

        if most_memory_bytes:
            resource.prlimit(pid, resource.RLIMIT_DATA, (most_memory_bytes, most_memory_bytes))
        Path(f"/proc/{pid}/oom_score_adj").write_bytes(_FIRST_TO_GO)


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
