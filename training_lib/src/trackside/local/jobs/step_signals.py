"""The distinction of a signal to each process of a Slurm step, the training included, from one to `trackside run`.

Slurm signals each process of a step at its time limit, before preemption and for `--signal`; `kill` in a batch script
signals one. What the training has received must not be passed on to it: its handler would run twice, the second within
the first, and save one checkpoint into another. Python does not know who sent a signal. A process that only waits for
signals does.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

from trackside.local.signal_inbox import PASSED_ON

ARRIVES_SECONDS = 0.5  # between the first and the last process that Slurm signals; others' signals are as much later
_WAITING = """
import os, signal, sys
numbers, parent = set(map(int, sys.argv[1:])), os.getppid()
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
os.write(1, bytes(1))
while os.getppid() == parent:
    found = signal.sigtimedwait(numbers, 5)
    if found:
        os.write(1, bytes([found.si_signo]))
"""


class StepSignals:
    """A process beside the training that receives what every process of the step receives."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                (sys.executable, "-I", "-S", "-c", _WAITING, *(str(int(number)) for number in PASSED_ON)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C, and what is sent to a group, is not of the step
            )
        except OSError:  # then each signal is passed on
            return
        self._received: set[int] = set()

    def reached_all(self, number: signal.Signals) -> bool:
        """Return True, once for each arrival, if the signal reached every process of the step."""
        if self._process is None or self._process.stdout is None:
            return False
        output = self._process.stdout.fileno()
        while number not in self._received and select.select([output], [], [], ARRIVES_SECONDS)[0]:
            if not (arrived := os.read(output, 64)):
                return False
            self._received.update(arrived)
        is_for_all = number in self._received
        self._received.discard(number)
        return is_for_all

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
