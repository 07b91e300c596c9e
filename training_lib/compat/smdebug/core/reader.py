"""The tensors of one event file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smdebug import not_offered
from smdebug.core.tfrecord.record_reader import content_of
from smdebug.core.tfrecord.tensor_reader import NamedTensor, TensorReader
from smdebug.core.utils import match_inc
from smdebug.exceptions import SMDebugNotImplementedError
from trackside.contracts.cached_property import cached_property


class FileReader:
    """A reader of one event file, from its beginning to its end. `fname` is a path or s3://."""

    def __init__(self, fname: str, wtype: str = "tfevent") -> None:
        if wtype != "tfevent":
            raise SMDebugNotImplementedError("Only tfevent format is supported.")
        self.fname = fname

    def read_tensors(self, check: str = "minimal") -> Iterator[NamedTensor]:
        """Yield (name, step of the run, array, mode, step of that mode) of each remaining tensor.

        `check` is that of `tfrecord.record_reader`.

        Raises:
            SMDebugValueError: The file cannot be read, or a record is no tensor.
            SMDebugRuntimeError: A record is not intact.
        """
        return self._reader.read_tensors(check)

    def read_events(self, check: str = "minimal", regex_list: list[str] | None = None) -> list[dict[str, Any]]:
        """Return the time in seconds since the epoch, step, name and value of each tensor with a matching name.

        Raises the errors of `read_tensors`.
        """
        return [
            {"timestamp": record.wall_time, "step": record.step, "name": record.name, "value": record.value}
            for record in self._reader.tensor_records(check)
            if regex_list is None or match_inc(record.name, regex_list)
        ]

    @cached_property
    def _reader(self) -> TensorReader:
        return TensorReader(content_of(self.fname), where=self.fname)


__getattr__ = not_offered.attribute_of(__name__)
