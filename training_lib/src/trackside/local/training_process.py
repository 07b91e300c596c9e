"""The training: any command, in the foreground, with its own input, output and terminal; and its stopping."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.local.process_table import Process, family, living_processes, signal_all

_STDERR = 2  # the descriptor, whatever `sys.stderr` is


class TrainingProcess:
    """A started command.

    In a terminal it shares our process group, so that Ctrl-C, Ctrl-Z and reading from the keyboard work as without
    Trackside. Elsewhere it leads a group of its own, which can be signalled as one.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        shares_terminal: bool,
        is_output_on_stderr: bool = False,
    ) -> None:
        self.shares_terminal = shares_terminal
        self._seen: frozenset[Process] = frozenset()
        self._requested: frozenset[Process] = frozenset()
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdout=_STDERR if is_output_on_stderr else None,
            # `process_group=` is Python 3.11's; we have no threads that could hold a lock across the fork
            preexec_fn=None if shares_terminal else os.setpgrp,  # noqa: PLW1509
        )
        self._group = os.getpgrp() if shares_terminal else self._process.pid

    is_deciding = False  # it is never started again; see `RestartedTraining`

    def leave(self) -> None:
        """Do nothing: no other process follows."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Return None while it runs; then its exit code, or -n if signal n ended it."""
        return self._process.poll()

    def pass_on(self, number: signal.Signals) -> None:
        """Send the command a signal that `trackside run` received."""
        if self.poll() is None:
            self._process.send_signal(number)

    def request_end(self) -> None:
        """Send SIGTERM to the command and its process group.

        torchrun passes it on to workers in groups of their own.
        """
        self._request_end(process for process in self._look() if process.group == self._group)

    def is_alive(self) -> bool:
        """Return True while any process of the family runs. Call it after `request_end`, which makes orphans known.

        Once the command itself has ended, the processes it left get SIGTERM too, once.
        """
        left = self._look()
        if self.poll() is None:
            return True
        self._request_end(left - self._requested)
        return bool(left)

    def kill(self) -> None:
        """Send SIGKILL to the whole family, in every group."""
        signal_all(self._look(), signal.SIGKILL)

    def _request_end(self, processes: Iterable[Process]) -> None:
        requested = frozenset(processes)
        signal_all(requested, signal.SIGTERM)
        self._requested |= requested

    def _look(self) -> frozenset[Process]:
        table = living_processes()
        alive = {process for process in self._seen if table.get(process.pid) == process}
        own_group = None if self.shares_terminal else self._group
        known = {process.pid for process in alive} | ({self.pid} if self.poll() is None else set())
        self._seen = family(table, known, group=own_group)
        return self._seen


def find_command(command: Sequence[str], *, search_path: str | None) -> None:
    """Check that the first word is a program. Errors: `ConfigurationError` if it cannot be started."""
    name = command[0]
    if shutil.which(name, path=search_path):
        return
    if os.sep in name:
        what = "is there but is not executable." if Path(name).is_file() else "there is no such file."
        fix = f"Start it with its interpreter, for example: python {name}" if name.endswith(".py") else ""
    else:
        is_script = Path(name).is_file()
        what = "is a file, not a program." if is_script else "there is no such program on PATH."
        fix = f"Try: trackside run -- python {name}" if is_script else "Check the spelling of the command after `--`."
    raise ConfigurationError([Problem(where=name, what=what, fix=fix)], subject="The command")


def owns_the_terminal() -> bool:
    """Return True if this process belongs to the group in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
