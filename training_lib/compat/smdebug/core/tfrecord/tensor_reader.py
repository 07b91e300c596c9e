"""The tensors in the bytes of an event file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smdebug import not_offered
from smdebug.core.modes import ModeKeys
from smdebug.core.tfrecord.record_reader import Records
from smdebug.core.tfrecord.record_writer import framed
from smdebug.exceptions import SMDebugValueError
from trackside.contracts.errors import RecordError
from trackside.records.tfevents import TensorRecord, read_records

MODE_PLUGIN_NAME = "mode"
MODE_STEP_PLUGIN_NAME = "mode_step"

NamedTensor = tuple[str, int, Any, ModeKeys, int]


class TensorReader:
    """A reader of whole records: a whole event file, or the part that an index points to."""

    def __init__(self, data: bytes, *, where: str = "these bytes") -> None:
        self._where = where
        self._records = Records(data, where=where)

    def has_data(self) -> bool:
        """Return True if another record follows."""
        return self._records.has_data()

    def read_record(self, check: str = "minimal") -> bytes:
        """Return the next payload. Raises the errors of `Records.read_record`."""
        return self._records.read_record(check)

    def read_tensors(self, check: str = "minimal") -> Iterator[NamedTensor]:
        """Yield (name, step of the run, array, mode, step of that mode) of each remaining tensor.

        See `Records.read_record` for `check`.

        Raises:
            SMDebugRuntimeError: A record is not intact.
            SMDebugValueError: A record holds no tensor.
        """
        for record in self.tensor_records(check):
            yield record.name, record.step, record.value, ModeKeys[record.mode], record.mode_step

    def tensor_records(self, check: str) -> Iterator[TensorRecord]:
        """Yield each remaining tensor with its time of writing. Raises the errors of `read_tensors`."""
        while self.has_data():
            payload = self.read_record(check)
            try:
                yield from read_records(framed(payload, with_checksum=False), key=self._where)
            except RecordError as error:
                raise SMDebugValueError(str(error)) from error


__getattr__ = not_offered.attribute_of(__name__)
