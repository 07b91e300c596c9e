"""The machine's metrics of a run that nobody samples from outside, such as a job of SageMaker.

The sampler is a process beside the training and writes to a local folder. The writer thread starts it, sends each file
of a minute to the run once it is complete, and ends it with the run. If the training is killed, the sampler's pipe
closes and it ends; the files that were not sent are lost. Only a configuration of SageMaker Debugger asks for it,
so the files are those that the original's readers know.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from trackside.contracts.run_layout import OPEN_SUFFIX, SYSTEM_PREFIX
from trackside.speed.machine.sampler_process import SamplerProcess
from trackside.speed.machine.system_sampler import FIRST_NODE
from trackside.storage.store import Store

FLUSH_SECONDS = 15.0


class MachinePart:
    """The sampler of one machine, and the files that it writes; a `BackgroundPart` of the writer.

    Args:
        open_store: Opens the store of the run's profiles.
        interval_ms: Milliseconds between two samples.
        node: Name of this machine: `algo-1`; "" for the first.
        environment: Variables for the sampler.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        interval_ms: int,
        node: str,
        environment: Mapping[str, str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_store, self._monotonic = open_store, monotonic
        self._interval_ms, self._node, self._environment = interval_ms, node or FIRST_NODE, environment
        self._store: Store | None = None
        self._folder: Path | None = None
        self._sampler: SamplerProcess | None = None
        self._due_at = 0.0

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next flush; see `BackgroundPart`."""
        return max(0.0, self._due_at - self._monotonic())

    def flush_if_due(self) -> bool:
        """Send complete files, if it is time; see `BackgroundPart`."""
        if self.due_in_seconds:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Send complete files, and start the sampler at the first call; see `BackgroundPart`."""
        self._due_at = self._monotonic() + FLUSH_SECONDS
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="trackside-machine-"))
            self._sampler = SamplerProcess(
                str(self._folder),
                process=os.getpid(),
                interval_ms=self._interval_ms,
                node=self._node,
                environment=self._environment,
                start_after_seconds=0.0,
                is_compact=False,
                monotonic=self._monotonic,
            )
            self._sampler.tend()
        self._send()

    def close(self) -> None:
        """End the sampler, and send its last file; see `BackgroundPart`."""
        if self._sampler is not None:
            self._sampler.finish()
        self._send()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self) -> None:
        if self._folder is None:
            return
        for path in sorted(self._folder.glob(f"{SYSTEM_PREFIX}*/*.json")):
            if path.name.endswith(OPEN_SUFFIX):
                continue
            if self._store is None:
                self._store = self._open_store()
            self._store.put(path.relative_to(self._folder).as_posix(), path.read_bytes())
            path.unlink()
