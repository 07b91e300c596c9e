"""Arrays as `TensorProto` messages."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered
from smdebug.exceptions import SMDebugTypeError
from trackside.records.tensor_proto import tensor_parts


class TensorProto:
    """A finished message. It cannot be taken apart, for that needs a protobuf runtime."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        return self._data

    def ByteSize(self) -> int:  # noqa: N802 - protobuf's name
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorProto) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)


def make_tensor_proto(nparray_data: Any, tag: str) -> TensorProto:
    """Return the array in the form in which it is saved under the name `tag`.

    Raises:
        SMDebugTypeError: Its type cannot be saved.
    """
    try:
        return TensorProto(b"".join(tensor_parts(nparray_data, name=tag)))
    except TypeError as error:
        raise SMDebugTypeError(str(error)) from error


__getattr__ = not_offered.attribute_of(__name__)
