"""Tensors <-> the records of an event file, byte for byte as smdebug 1.0.34 writes them.

A file is a chain of records, one tensor each:

    length    8 bytes  uint64, little-endian
    check     4 bytes  masked CRC-32C of the length
    payload            an `Event` message (protobuf) with one summary value
    footer    4 bytes  a constant; only TensorBoard's own files have a CRC of the payload here

Old readers accept the constant footer only, TensorFlow's accept the CRC only. We write the former and read both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import google_crc32c
import numpy as np

from trackside.contracts.errors import RecordError
from trackside.records.modes import MODE_NAMES, MODE_NUMBERS, checked_mode
from trackside.records.protobuf_wire import (
    WireError,
    WireField,
    read_fields,
    write_bytes,
    write_double,
    write_header,
    write_number,
)
from trackside.records.tensor_proto import AnyArray, read_tensor, tensor_parts

_HEADER = struct.Struct("<QI")
HEADER_SIZE = _HEADER.size
_FOOTER_SIZE = 4
_CRC_OFFSET = 0xA282EAD8
_LAST_STEP = 2**63 - 1


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C, rotated and shifted so that a CRC over data that holds CRCs keeps its strength (TFRecord)."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + _CRC_OFFSET) & 0xFFFFFFFF


FOOTER = struct.pack("<I", masked_crc(b"0x12345678"))


@dataclass(frozen=True, eq=False)
class TensorRecord:
    """One tensor as saved.

    name       its name
    value      its value, which belongs to the caller
    step       the step over all modes
    mode       "TRAIN", "EVAL", "PREDICT" or "GLOBAL"
    mode_step  the step within the mode; -1 for a scalar that smdebug saved before the mode's first step
    wall_time  seconds since the epoch
    """

    name: str
    value: AnyArray
    step: int
    mode: str
    mode_step: int
    wall_time: float


def encode_tensor(name: str, value: AnyArray, *, step: int, mode: str, mode_step: int, wall_time: float) -> bytes:
    """Return one whole record. Types that old readers cannot read are widened (see `tensor_proto`).

    Raises:
        TypeError: Arrays of that dtype cannot be stored.
        ValueError: The mode is unknown, or a step is below 0.
    """
    return b"".join(encode_tensor_parts(name, value, step=step, mode=mode, mode_step=mode_step, wall_time=wall_time))


def encode_tensor_parts(
    name: str, value: AnyArray, *, step: int, mode: str, mode_step: int, wall_time: float
) -> list[bytes | memoryview]:
    """Return `encode_tensor` in parts, so that no big array is copied. The caller joins or stores them in order."""
    moment, after = record_moment(wall_time, step), _metadata(mode, mode_step)
    head, *content = tensor_parts(value, name=name)
    # A message without content may be texts of any length, which are not to be remembered.
    frame = _frame if content else _frame.__wrapped__
    before, behind = frame(name, head, len(content[0]) if content else 0, len(moment), len(after))
    return [before + moment + behind, *content, after + FOOTER]


@lru_cache(maxsize=4096)  # a training saves the same tensors step after step
def _frame(name: str, head: bytes, content_size: int, moment_size: int, metadata_size: int) -> tuple[bytes, bytes]:
    """Return the bytes before the moment, and those between the moment and the values.

    `head` is the beginning of the tensor's message.
    """
    value = _name_field(name) + write_header(8, len(head) + content_size) + head
    value_size = len(value) + content_size + metadata_size
    summary = write_header(1, value_size)
    event = write_header(5, len(summary) + value_size) + summary
    return _length(moment_size + len(event) + value_size), event + value


# All records of a step share some of their fields, and the steps of a run the others.


@lru_cache(maxsize=16)
def record_moment(wall_time: float, step: int) -> bytes:
    """Return the part of a record with its time and step.

    Raises:
        ValueError: The step is below 0.
    """
    if not 0 <= step <= _LAST_STEP:
        raise ValueError(f"Steps count from 0, within 63 bits: step {step}.")
    return write_double(1, wall_time) + write_number(2, step)


@lru_cache(maxsize=16)
def _metadata(mode: str, mode_step: int) -> bytes:
    checked_mode(mode)
    if not 0 <= mode_step <= _LAST_STEP:
        raise ValueError(f"Steps count from 0, within 63 bits: mode step {mode_step}.")
    digits = b"%d" % mode_step
    return write_bytes(9, _MODE_STEP_PLUGINS[len(digits)] + digits + _MODE_PLUGINS[mode])


def record_tail(mode: str, mode_step: int) -> bytes:
    """Return the part of a record behind the values.

    Raises:
        ValueError: The mode is unknown, or the step within it is below 0.
    """
    return _metadata(mode, mode_step) + FOOTER


def _name_field(name: str) -> bytes:
    return write_bytes(1, name.encode("utf-8"))


def _length(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + struct.pack("<I", masked_crc(length))


def decode_record(data: bytes, *, key: str, offset: int) -> TensorRecord:
    """Return the tensor in one whole record. `key` and `offset` are the origin of `data`, for messages.

    Raises:
        RecordError: It is anything else than exactly one intact record with one tensor.
    """
    view = memoryview(data)
    payload = _payload(view, key, offset)
    if len(payload) + _HEADER.size + _FOOTER_SIZE != len(view):
        end = len(payload) + _HEADER.size + _FOOTER_SIZE
        raise RecordError(key, offset + end, f"{len(view) - end} bytes follow the record")
    record = _decode_event(payload, key, offset + _HEADER.size)
    if record is None:
        raise RecordError(key, offset, "the event holds no tensor")
    return record


def read_records(data: bytes, *, key: str, offset: int = 0) -> Iterator[TensorRecord]:
    """Yield all tensors of a whole event file, or of its part from `offset` on, in their order.

    Events without a summary are skipped.

    Raises:
        RecordError: A record is not intact.
    """
    view, position = memoryview(data), 0
    while position < len(view):
        payload = _payload(view[position:], key, offset + position)
        record = _decode_event(payload, key, offset + position + _HEADER.size)
        if record is not None:
            yield record
        position += _HEADER.size + len(payload) + _FOOTER_SIZE


def whole_records_size(data: bytes) -> int:
    """Return the number of bytes of whole records at the start of `data`, by the lengths in their headers."""
    position = 0
    while position + _HEADER.size <= len(data):
        end = position + declared_size(data, position)
        if end > len(data):
            break
        position = end
    return position


def has_intact_header(data: bytes) -> bool:
    """Return True if `data` begins with a record's header with a correct checksum."""
    return len(data) >= HEADER_SIZE and _HEADER.unpack_from(data)[1] == masked_crc(data[:8])


def declared_size(data: bytes, position: int = 0) -> int:
    """Return the size in bytes of the record at that place in `data`, according to its header."""
    return int.from_bytes(data[position : position + 8], "little") + _HEADER.size + _FOOTER_SIZE


def _plugin(name: str, content: bytes) -> bytes:
    return write_bytes(1, write_bytes(1, name.encode()) + write_bytes(2, content))


_MODE_PLUGINS = {mode: _plugin("mode", b"%d" % number) for mode, number in MODE_NUMBERS.items()}
# Up to the digits, by their number.
_MODE_STEP_PLUGINS = [_plugin("mode_step", bytes(count))[: -count or None] for count in range(len(str(_LAST_STEP)) + 1)]


def _payload(view: memoryview, key: str, offset: int) -> memoryview:
    """Return the payload of the record at the start of `view`, checked."""
    if len(view) < _HEADER.size:
        raise RecordError(key, offset, f"a record's header has {_HEADER.size} bytes, but only {len(view)} are left")
    length, check = _HEADER.unpack_from(view)
    if check != masked_crc(bytes(view[:8])):
        raise RecordError(key, offset, "the checksum of a record's length does not match")
    end = _HEADER.size + length
    if end + _FOOTER_SIZE > len(view):
        raise RecordError(key, offset, f"a record claims {length} bytes, but only {len(view) - _HEADER.size} are left")
    payload, footer = view[_HEADER.size : end], bytes(view[end : end + _FOOTER_SIZE])
    if footer != FOOTER and struct.unpack("<I", footer)[0] != masked_crc(bytes(payload)):
        raise RecordError(key, offset + end, "a record's footer is neither smdebug's nor a checksum of the payload")
    return payload


def _decode_event(payload: memoryview, key: str, offset: int) -> TensorRecord | None:
    wall_time, step = 0.0, 0
    value: WireField | None = None
    has_summary = False
    try:
        for field in read_fields(payload, offset):
            if field.number == 1:
                wall_time = field.double()
            elif field.number == 2:
                step = field.signed()
            elif field.number == 5:
                has_summary = True
                value = _only_value(field)
        if not has_summary:
            return None
        if value is None:
            raise WireError(offset, "the summary is empty")
        return _decode_value(value, step=step, wall_time=wall_time)
    except WireError as error:
        raise RecordError(key, error.offset, error.what) from error


def _only_value(summary: WireField) -> WireField | None:
    values = [field for field in summary.message() if field.number == 1]
    if len(values) > 1:
        raise WireError(values[1].offset, f"one value to an event is expected, not {len(values)}")
    return values[0] if values else None


def _decode_value(value: WireField, *, step: int, wall_time: float) -> TensorRecord:
    name = ""
    tensor: AnyArray | None = None
    plugins: dict[str, tuple[int, int]] = {}
    for field in value.message():
        if field.number == 1:
            name = field.text()
        elif field.number == 8:
            tensor = read_tensor(field)
        elif field.number == 9:
            plugins = dict(_read_plugins(field))
    if tensor is None:
        raise WireError(value.offset, f"the value {name!r} is no tensor")
    number, where = plugins.get("mode", (MODE_NUMBERS["GLOBAL"], value.offset))
    if number not in MODE_NAMES:
        raise WireError(where, f"{number} is not the number of a mode")
    mode_step, where = plugins.get("mode_step", (step, value.offset))
    if step < 0:
        raise WireError(where, f"steps count from 0, not {step}")
    return TensorRecord(name, np.asarray(tensor), step, MODE_NAMES[number], mode_step, wall_time)


def _read_plugins(metadata: WireField) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield (name, (number, offset)) of the plug-in entries that smdebug writes. Others are skipped."""
    for plugin in metadata.message():
        if plugin.number != 1:
            continue
        texts = {field.number: field for field in plugin.message() if field.number in {1, 2}}
        name = texts[1].text() if 1 in texts else ""
        if name not in {"mode", "mode_step"}:
            continue
        content = texts[2].text() if 2 in texts else ""
        if (name, content) == ("mode_step", "-1"):  # smdebug's, before the first step of the mode
            yield name, (-1, plugin.offset)
            continue
        if not (content.isascii() and content.isdigit() and len(content) < 20 and int(content) <= _LAST_STEP):
            raise WireError(plugin.offset, f"the {name} {content[:20]!r} is not a whole number")
        yield name, (int(content), plugin.offset)
