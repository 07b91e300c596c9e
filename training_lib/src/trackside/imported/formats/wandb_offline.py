"""Offline runs of Weights & Biases, `run-<id>.wandb`: a log of records in blocks of 32 KiB, as LevelDB has them.

    header   7 bytes  ":W&B", a number, a version
    record   CRC-32 (4 bytes), length (2 bytes), kind (1 byte: whole, first, middle, last), then a part of a message

The message is a `Record`; its field 2 is the history of one step: items of a key and a value in JSON.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

from trackside.imported.format import Format
from trackside.imported.log import Log, LogFile, Series
from trackside.records.protobuf_wire import BYTES, FIXED64, VARINT, WireError, WireField, as_signed, read_fields

_BLOCK, _HEADER = 32 << 10, 7
_HEAD = struct.Struct("<IHB")
_DOUBLE = struct.Struct("<d")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_SEEDS = {kind: zlib.crc32(bytes([kind])) for kind in (_WHOLE, _FIRST, _MIDDLE, _LAST)}
MOST_MESSAGE_BYTES = 64 << 20


def _is_ours(file: LogFile) -> bool:
    return file.name.endswith(".wandb") and file.size > 0


def _read(name: str, files: Sequence[LogFile], _: Series) -> Iterable[Log]:
    (file,) = files
    series = Series()
    for message in _messages(file, series):
        try:
            for field in read_fields(memoryview(message), 0):
                if field.number == 2 and field.wire_type == BYTES:
                    series.add_row(_numbers_of(field))
        except WireError as error:
            series.note(f"a record of {file.name} cannot be read: {error.what}")
    own = name.rpartition("/")[2].removesuffix(".wandb")
    yield Log(own, file.where, FORMAT.name, series.points(), damage=tuple(series.damage), left_out=len(series.left_out))


def _messages(file: LogFile, series: Series) -> Iterator[bytes]:
    """Yield whole messages. After damage the next message that begins is read."""
    parts: list[bytes] = []
    damaged = 0
    is_first = True
    for block in file.chunks(size=_BLOCK):
        if is_first and not block.startswith(b":W&B"):
            series.note(f"{file.name} does not begin as a run of W&B")
            return
        position, is_first = _HEADER if is_first else 0, False
        while position + _HEADER <= len(block):
            check, length, kind = _HEAD.unpack_from(block, position)
            data = block[position + _HEADER : position + _HEADER + length]
            position += _HEADER + length
            if kind == 0 and length == 0:
                break  # the rest of the block is empty
            if len(data) < length:
                series.note(f"{file.name} ends within a record: its writer was killed, or still writes")
                return
            if kind not in _SEEDS or zlib.crc32(data, _SEEDS[kind]) != check:
                damaged += 1
                parts = []
                break
            parts = [data] if kind in {_WHOLE, _FIRST} else [*parts, data]
            if kind in {_WHOLE, _LAST} and sum(map(len, parts)) <= MOST_MESSAGE_BYTES:
                yield b"".join(parts)
    if damaged:
        series.note(f"{file.name}: {damaged:,} block{' is' if damaged == 1 else 's are'} damaged and left out")


def _numbers_of(history: WireField) -> Iterator[tuple[str, float]]:
    for field in history.message():
        if field.number == 1:
            key, value = _item(field)
            if key and value is not None:
                yield key, value


def _item(item: WireField) -> tuple[str, float | None]:
    """Return the name of an item, its parts joined by `/`, and its number; None for anything else."""
    key, parts, value = "", [], None
    for field in item.message():
        if field.number == 1:
            key = field.text()
        elif field.number == 2:
            parts.append(field.text())
        elif field.number == 5 and field.wire_type == VARINT:
            value = float(as_signed(field.number_value))
        elif field.number == 6 and field.wire_type == FIXED64:
            (value,) = _DOUBLE.unpack(field.data)
        elif field.number == 16:
            value = _number_of(field.bytes_value())
    return key or "/".join(parts), value


def _number_of(text: memoryview) -> float | None:
    try:
        found = json.loads(bytes(text))
    except ValueError:
        return None
    if isinstance(found, str) and found in {"NaN", "Infinity", "-Infinity"}:
        return float(found)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


FORMAT = Format("offline run of W&B", 30, _is_ours, _read)
