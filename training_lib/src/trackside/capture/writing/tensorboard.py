"""Files for TensorBoard, written with the tensors: single numbers as scalars, others as histograms.

smdebug writes a file for each saved step and mode. These files have the same names and hold the steps of some seconds
each, because TensorBoard opens every one of them.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable

import numpy as np

from trackside.capture.steps.step_tensors import StepTensors
from trackside.records.tensorboard_file import (
    clean_tag,
    encode_histogram,
    encode_scalar,
    encode_version,
    histogram_of,
    original_file_name,
)
from trackside.storage.store import Store

STORE_EVERY_SECONDS = 5.0
MOST_BYTES = 8 << 20  # that wait; more is stored at once, and dropped where that fails

logger = logging.getLogger(__name__)


class TensorBoardFiles:
    """The files of one worker. Runs on the writer thread. A failed store never costs the tensors of a run.

    `folder` is "" or ends with a slash: each worker other than the first has its own, a separate run for TensorBoard.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        folder: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_store, self._folder, self._monotonic = open_store, folder, monotonic
        self._store: Store | None = None
        self._waiting: dict[str, tuple[int, list[bytes]]] = {}
        self._waiting_bytes = 0
        self._stored_at = float("-inf")
        self._has_complained = False

    def add(self, step: StepTensors, histogram_names: dict[str, str]) -> None:
        """Add a step. `histogram_names` maps each tensor with a histogram to the collection that names it."""
        records = [record for name, value in step.tensors if (record := _encoded(step, name, value, histogram_names))]
        if records:
            _, waiting = self._waiting.setdefault(step.mode, (step.step, [encode_version(step.wall_time)]))
            waiting += records
            self._waiting_bytes += sum(map(len, records))
        if self._waiting and (self._is_due() or self._waiting_bytes > MOST_BYTES):
            self.store()

    def store(self) -> None:
        """Store the steps that wait."""
        self._stored_at = self._monotonic()
        try:
            self._store = self._store or self._open_store()
            for mode, (step, records) in tuple(self._waiting.items()):
                name = original_file_name(mode, step, process_id=os.getpid(), host=socket.gethostname())
                self._store.put(self._folder + name, b"".join(records))
                del self._waiting[mode]
        except OSError as error:
            self._complain(error)
        if not self._waiting or self._waiting_bytes > MOST_BYTES:
            self._waiting, self._waiting_bytes = {}, 0

    def _is_due(self) -> bool:
        return self._monotonic() - self._stored_at >= STORE_EVERY_SECONDS

    def _complain(self, error: OSError) -> None:
        if not self._has_complained:
            logger.warning("trackside: files for TensorBoard could not be stored: %s. It is tried again.", error)
        self._has_complained = True


def _encoded(step: StepTensors, name: str, value: np.ndarray, histogram_names: dict[str, str]) -> bytes:
    if value.dtype.kind not in "biuf":
        return b""
    if value.size == 1:
        wall_time = step.wall_times.get(name, step.wall_time)
        return encode_scalar(clean_tag(name), float(value.reshape(-1)[0]), step=step.step, wall_time=wall_time)
    collection = histogram_names.get(name)
    histogram = histogram_of(value) if collection else None
    if histogram is None:
        return b""
    return encode_histogram(clean_tag(f"{collection}/{name}"), histogram, step=step.step, wall_time=step.wall_time)
