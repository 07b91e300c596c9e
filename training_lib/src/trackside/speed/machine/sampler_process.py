"""The sampler of the machine beside a run: a process that ends with this one, and is never started again."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping

from trackside.speed.machine import system_sampler

_logger = logging.getLogger(__name__)

START_SECONDS = 1.0  # a command that ends sooner has nothing to profile
GRACE_SECONDS = 2.0


class SamplerProcess:
    """Samples the machine beside a training.

    Args:
        profiles: The folder of a run's profiles.
        process: Id of the training's first process.
        interval_ms: Milliseconds between two samples; 0 for no sampling.
        environment: Variables for the process.
        node: Name of this machine.
        start_after_seconds: Time before it is started.
        is_compact: False for files that SageMaker Debugger's own readers know.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        profiles: str,
        *,
        process: int,
        interval_ms: int,
        environment: Mapping[str, str],
        monotonic: Callable[[], float],
        node: str = system_sampler.FIRST_NODE,
        start_after_seconds: float = START_SECONDS,
        is_compact: bool = True,
    ) -> None:
        self._command = (
            *(sys.executable, "-I", "-S", os.path.abspath(system_sampler.__file__), profiles),
            *("--process", str(process), "--interval-ms", str(interval_ms), "--node", node),
            *(() if is_compact else ("--json",)),
        )
        self._environment = {name: text for name, text in environment.items() if not name.startswith("TRACKSIDE_")}
        self._monotonic = monotonic
        self._start_at: float | None = monotonic() + start_after_seconds if interval_ms else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process; None before it was started."""
        return self._process.pid if self._process else None

    def tend(self) -> None:
        """Start the process once the training has run for a moment. Nothing raises."""
        if self._start_at is None or self._monotonic() < self._start_at:
            return
        self._start_at = None
        try:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,  # its end ends the process
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the training
            )
        except OSError as error:  # the run is worth having without it
            _logger.debug("The machine is not sampled", exc_info=error)

    def finish(self) -> None:
        """End the process, and wait until its last samples are written."""
        self._start_at = None
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                os.write(process.stdin.fileno(), b"\n")  # forked workers may hold the pipe too, so that it stays open
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
