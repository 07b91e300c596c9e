"""A writer for one step of one worker, used by hand."""

from __future__ import annotations

import struct
import time
from types import TracebackType
from typing import Any, NoReturn

from smdebug import not_offered
from smdebug.core.locations import TensorboardFileLocation, TensorFileLocation
from smdebug.core.modes import ModeKeys
from smdebug.core.tfrecord.record_writer import CHECKSUM_MAGIC_BYTES, masked_crc32c
from smdebug.core.utils import make_numpy_array
from smdebug.exceptions import (
    SMDebugNotImplementedError,
    SMDebugRuntimeError,
    SMDebugTypeError,
    SMDebugValueError,
)
from trackside.contracts.run_layout import event_key, index_key
from trackside.records.index_file import Index, IndexEntry, ShapeEntry, encode_index
from trackside.records.tensorboard_file import clean_tag, encode_histogram, encode_scalar, histogram_of
from trackside.records.tfevents import encode_tensor
from trackside.storage.open_store import open_store

MODE_PLUGIN_NAME = "mode"
MODE_STEP_PLUGIN_NAME = "mode_step"

_HEADER_SIZE, _FOOTER_SIZE = 12, 4


class FileWriter:
    """A writer that collects tensors, and stores them with their index when closed. `trial_dir` is a folder or s3://.

    `wtype` "tensorboard" collects scalars and histograms instead, in a file of the folder `trial_dir`/<mode>.
    `max_queue`, `flush_secs` and `verbose` change nothing. Errors of storing are those of `contracts.errors`.
    """

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        trial_dir: str,
        worker: str,
        step: int = 0,
        wtype: str = "events",
        mode: ModeKeys = ModeKeys.GLOBAL,
        max_queue: int = 10,
        flush_secs: float = 120,
        verbose: bool = False,
        write_checksum: bool = False,
    ) -> None:
        if wtype not in {"events", "tensorboard"}:
            raise SMDebugValueError(f"Writer type not supported {wtype}")
        self.trial_dir, self.worker, self.step = trial_dir, worker, step
        self.wtype, self.mode, self.write_checksum = wtype, mode, write_checksum
        self.max_queue, self.flush_secs, self.verbose = max_queue, flush_secs, verbose
        self._records: list[bytes] = []
        self._size = 0
        self._entries: list[IndexEntry] = []
        self._shapes: list[ShapeEntry] = []
        self._meta: tuple[str, int] | None = None  # of the first tensor, else of the first shape
        self._is_closed = False

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def name(self) -> str:
        """Return the path of the event file.

        Raises:
            SMDebugRuntimeError: Nothing was written yet.
        """
        if not self._records:
            raise SMDebugRuntimeError("There is no file until the first tensor or summary is written.")
        if self.wtype == "tensorboard":
            return TensorboardFileLocation(self.step, self.worker, self.mode).get_file_location(self.trial_dir)
        return TensorFileLocation(self.step, self.worker).get_file_location(self.trial_dir)

    def write_tensor(  # noqa: PLR0917 - the old signature
        self,
        tdata: Any,
        tname: str,
        write_index: bool = True,
        mode: ModeKeys | None = ModeKeys.GLOBAL,
        mode_step: int | None = None,
        timestamp: float | None = None,
    ) -> None:
        """Add an array, number, text or list. One without elements is left out: old readers fail on it.

        Args:
            tdata: The value.
            tname: Its name.
            write_index: False: trials will not find it.
            mode: Its mode.
            mode_step: The step within the mode; None: the writer's step.
            timestamp: Seconds since the epoch; None: now.

        Raises:
            SMDebugTypeError: The value cannot be saved.
        """
        value = make_numpy_array(tdata)
        if self.wtype != "events":
            raise SMDebugRuntimeError("Tensors are written by a writer of the type 'events'.")
        if not value.size:
            return
        meta = self._place(mode, mode_step)
        try:
            record = encode_tensor(
                tname,
                value,
                step=self.step,
                mode=meta[0],
                mode_step=meta[1],
                wall_time=timestamp or time.time(),
            )
        except TypeError as error:
            raise SMDebugTypeError(str(error)) from error
        start = self._append(record)
        if write_index:
            if not self._entries:
                self._meta = meta
            self._entries.append(IndexEntry(tname, start, len(record)))

    def write_shape(
        self,
        name: str,
        shape: tuple[int, ...],
        mode: ModeKeys | None = ModeKeys.GLOBAL,
        mode_step: int | None = None,
        original_name: str | None = None,
    ) -> None:
        """Add a tensor's shape by itself. `original_name` is the framework's name for the tensor."""
        if self._meta is None:
            self._meta = self._place(mode, mode_step)
        self._shapes.append(ShapeEntry(name, original_name or name, tuple(map(int, shape))))

    def write_scalar_summary(self, name: str, value: Any, global_step: int, timestamp: float | None = None) -> None:
        """Add one number, for TensorBoard."""
        number = float(make_numpy_array(value).item())
        self._append(encode_scalar(clean_tag(name), number, step=global_step, wall_time=timestamp or time.time()))

    def write_histogram_summary(self, tdata: Any, tname: str, global_step: int, bins: Any = "default") -> None:
        """Add the histogram of the values, for TensorBoard. The buckets are always TensorBoard's: `bins` is ignored."""
        histogram = histogram_of(make_numpy_array(tdata))
        if histogram is not None:
            self._append(encode_histogram(clean_tag(tname), histogram, step=global_step, wall_time=time.time()))

    def write_graph(self, graph: Any) -> NoReturn:
        """Raise `SMDebugNotImplementedError`: not offered."""
        raise SMDebugNotImplementedError("Graphs of a model are not written: they need a protobuf runtime.")

    def write_pytorch_graph(self, graph_profile: Any) -> NoReturn:
        """Raise `SMDebugNotImplementedError`: not offered."""
        self.write_graph(graph_profile)

    def write_summary(self, summ: Any, global_step: int, timestamp: float | None = None) -> NoReturn:
        """Raise `SMDebugNotImplementedError`: not offered."""
        raise SMDebugNotImplementedError("Use write_scalar_summary or write_histogram_summary.")

    def flush(self) -> None:
        """Do nothing: others see the file after `close`."""

    def close(self) -> None:
        """Store the event file, then the index that promises it. Nothing happens the second time."""
        if self._is_closed:
            return
        self._is_closed = True
        store = open_store(self.trial_dir)
        if self._records:
            folder = f"{self.trial_dir.rstrip('/')}/"
            key = event_key(self.step, self.worker) if self.wtype == "events" else self.name().removeprefix(folder)
            store.put(key, b"".join(self._records))
        if self._meta is not None:
            store.put(index_key(self.step, self.worker), encode_index(self._index(*self._meta)))

    def _index(self, mode: str, mode_step: int) -> Index:
        key = event_key(self.step, self.worker) if self._entries else None
        return Index(mode, mode_step, key, tuple(self._entries), tuple(self._shapes))

    def _place(self, mode: ModeKeys | None, mode_step: int | None) -> tuple[str, int]:
        return (mode or ModeKeys.GLOBAL).name, self.step if mode_step is None else int(mode_step)

    def _append(self, record: bytes) -> int:
        """Add a record with the requested footer. Return its position."""
        guarded = record[_HEADER_SIZE:-_FOOTER_SIZE] if self.write_checksum else CHECKSUM_MAGIC_BYTES
        footer = struct.pack("<I", masked_crc32c(guarded))
        self._records.append(record if record.endswith(footer) else record[:-_FOOTER_SIZE] + footer)
        start, self._size = self._size, self._size + len(record)
        return start


__getattr__ = not_offered.attribute_of(__name__)
