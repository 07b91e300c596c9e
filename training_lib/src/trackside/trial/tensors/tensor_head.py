"""Shape and type of a saved tensor from the first bytes of its record, so that listing a run fetches no tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trackside.contracts.errors import RecordError
from trackside.records.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, WireError, as_signed, read_varint

HEAD_BYTES = 2 << 10

_RECORD_HEADER_SIZE = 12  # length and its checksum
_TO_THE_VALUE = (5, 1)  # event -> summary -> value
_NAME, _TENSOR, _DTYPE, _SHAPE = 1, 8, 1, 2
_SIZES = {FIXED64: 8, FIXED32: 4}

# TensorFlow's type numbers by name; the values of bfloat16 are read as float32.
_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    8: "complex64",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
}


@dataclass(frozen=True)
class TensorHead:
    """Shape and type of a saved tensor.

    shape  in elements
    dtype  NumPy's name; "str" for texts
    """

    shape: tuple[int, ...]
    dtype: str


def read_head(data: bytes, *, name: str, key: str, offset: int) -> TensorHead | None:
    """Return the head in the first bytes of a record; None if the bytes end before it does.

    Checksums cover whole records and are not checked here. Errors: `RecordError` for bytes that are no record of this
    tensor.
    """
    view = memoryview(data)
    try:
        value = _descend(view, _RECORD_HEADER_SIZE, _TO_THE_VALUE)
        if value is None:
            return None
        found = ""
        tensor: tuple[int, int] | None = None
        for number, start, end in _fields(view, value):
            if number == _NAME and end <= len(view):
                found = bytes(view[start:end]).decode("utf-8", "replace")
            if number == _TENSOR:
                tensor = start, end
                break
        if tensor is None:
            return None
        if found != name:
            raise RecordError(key, offset, f"holds {found!r} where the index says {name!r}.")
        return _tensor_head(view[: tensor[1]], tensor[0], is_whole=tensor[1] <= len(view))
    except WireError as error:
        if error.offset >= len(view):
            return None
        raise RecordError(key, offset + error.offset, error.what) from error


def _tensor_head(view: memoryview, start: int, *, is_whole: bool) -> TensorHead | None:
    dtype = 0
    for number, first, end in _fields(view, start):
        if number == _DTYPE:
            dtype = as_signed(read_varint(view, first, 0)[0])
        elif number == _SHAPE:
            if end > len(view):
                return None
            shape = tuple(_dimension(view[:e], s) for n, s, e in _fields(view[:end], first) if n == 2)
            return TensorHead(shape, _name_of(dtype))
    return TensorHead((), _name_of(dtype)) if is_whole else None


def _name_of(dtype: int) -> str:
    return "str" if dtype in {0, 7} else _DTYPES.get(dtype, f"type {dtype}")


def _dimension(view: memoryview, start: int) -> int:
    return sum(as_signed(read_varint(view, first, 0)[0]) for number, first, _ in _fields(view, start) if number == 1)


def _descend(view: memoryview, start: int, path: tuple[int, ...]) -> int | None:
    """Return the start of the content of the field at the end of `path`."""
    for wanted in path:
        found = next((first for number, first, _ in _fields(view, start) if number == wanted), None)
        if found is None:
            return None
        start = found
    return start


def _fields(view: memoryview, position: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, end) of the fields from `position` on. The last may end beyond `view`.

    Errors: `WireError`.
    """
    while position < len(view):
        tag, start = read_varint(view, position, 0)
        wire_type = tag & 7
        if wire_type == VARINT:
            _, end = read_varint(view, start, 0)
        elif wire_type == BYTES:
            size, start = read_varint(view, start, 0)
            end = start + size
        elif wire_type in _SIZES:
            end = start + _SIZES[wire_type]
        else:
            raise WireError(position, f"wire type {wire_type} is not in use")
        yield tag >> 3, start, end
        position = end
