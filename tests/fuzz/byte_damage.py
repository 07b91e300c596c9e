"""Damage to the bytes of one file: blind (cuts, flips, insertions) and knowing (messages, JSON and blocks made anew).

Every function takes the file's bytes and returns others; what knows the format returns None where it does not apply.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

import google_crc32c

from trackside.records.block_file import encode_block, read_blocks
from trackside.records.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, WireError, read_fields, write_varint
from trackside.records.tfevents import FOOTER

_NUMBERS = (0, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (
    "",
    "../../outside/canary.tfevents",
    "/etc/passwd",
    "events/000000000000/../../../../outside/000000000000_worker_0.tfevents",
    "events/000000000000/000000000000_../../../outside/canary.tfevents",
    "events/999999999999/999999999999_worker_0.tfevents",
    "events/000000000000/000000000000_worker_0.tfevents",
    "\ud800",
    "a\0b",
    "x\ny\x1b[31m",
    "<script>alert(1)</script>",
    "smdebug/reductions/mean/",
    "smdebug/reductions/",
    "smdebug/reductions/nonsense/Net_fc1.weight",
    "(",
    "[a",
    "*",
    "TRAIN",
    "x" * 5000,
)
_DEEP, _DIGITS = "\x01deep\x01", "\x01digits\x01"
# The messages of an event that hold messages: event -> summary -> value -> tensor -> shape -> dimension, metadata.
_SCHEMA: dict[int, Any] = {5: {1: {8: {2: {2: {}}}, 9: {1: {}}}}}
_VALUE_FIELDS = (5, 6, 7, 8, 9, 10, 11, 12, 13, 14)

Field: TypeAlias = "list[Any]"  # [number, wire type, int | bytes | list of fields]


def blind(data: bytes, random: Random) -> tuple[bytes, str]:
    """Something else of nearly the same length, or a cut."""
    at = random.randrange(len(data) + 1)
    some = random.randbytes(random.choice((1, 4, 8, 16, 100)))
    end = min(len(data), at + random.choice((1, 2, 8, 50)))
    places = [random.randrange(len(data)) for _ in range(random.choice((1, 1, 1, 3, 20)))] if data else []
    flipped = bytearray(data)
    for place in places:
        flipped[place] ^= 1 << random.randrange(8)
    choices = (
        (data[:at], f"cut to {at} of {len(data)} bytes"),
        (bytes(flipped), f"bits flipped at {places}"),
        (data[:at] + some + data[at:], f"{len(some)} bytes inserted at {at}"),
        (data[:at] + data[end:], f"bytes {at} to {end} removed"),
        (data[:at] + bytes(end - at) + data[end:], f"bytes {at} to {end} zeroed"),
        (random.randbytes(len(data)), "noise"),
        (data[:at] + data, f"said again from byte {at} on"),
        (data + some, f"{len(some)} bytes appended"),
    )
    return random.choices(choices, weights=(2, 3, 1, 1, 1, 1, 1, 1))[0]


def knowing(key: str, data: bytes, random: Random) -> tuple[bytes, str] | None:
    """Well-formed outside, wrong inside: what checksums and parsers let through."""
    damage = next((change for suffix, change in _BY_SUFFIX.items() if key.endswith(suffix)), None)
    return damage(data, random) if damage else None


def changed_event_file(data: bytes, random: Random) -> tuple[bytes, str] | None:
    """One record's message changed, in a frame whose checksums are right."""
    records = list(_framed_payloads(data))
    if not records:
        return None
    place = random.randrange(len(records))
    start, end, payload = records[place]
    if random.random() < 0.2:  # now and then
        length = struct.pack("<Q", random.choice((*_NUMBERS, len(payload) + 1, max(0, len(payload) - 1))) % 2**64)
        return data[:start] + length + _masked(length) + data[start + 12 :], f"record {place} claims {length.hex()}"
    fields = _parsed(payload, _SCHEMA)
    changes = [_changed_fields(fields, random) for _ in range(random.choice((1, 1, 1, 2, 4)))]
    new = _framed(_written(fields), random)
    return data[:start] + new + data[end:], f"record {place}: {'; '.join(changes)}"


def changed_json(data: bytes, random: Random) -> tuple[bytes, str] | None:
    """One value of the document replaced, removed or added."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):  # an earlier damage
        return None
    changes = [_changed_document(document, random) for _ in range(random.choice((1, 1, 1, 2, 5)))]
    text = json.dumps(document)
    text = text.replace(json.dumps(_DEEP), "[" * 100_000 + "]" * 100_000).replace(json.dumps(_DIGITS), "9" * 5000)
    return text.encode(), "; ".join(changes)


def changed_json_lines(data: bytes, random: Random) -> tuple[bytes, str] | None:
    """One line changed as JSON."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return None
    place = random.randrange(len(lines))
    changed = changed_json(lines[place], random)
    if changed is None:
        return None
    lines[place] = changed[0] + b"\n"
    return b"".join(lines), f"line {place}: {changed[1]}"


def changed_blocks(data: bytes, random: Random) -> tuple[bytes, str] | None:
    """One block's payload, kind or number changed, or blocks moved, in frames whose checksums are right."""
    blocks = list(read_blocks(data, key="").blocks)
    if not blocks:
        return None
    place = random.randrange(len(blocks))
    block = blocks[place]
    kind, number, payload = block.kind, block.number, block.payload
    change = random.choice(("payload", "payload", "payload", "payload", "kind", "number", "drop", "twice", "swap"))
    pieces = [encode_block(b.kind, b.payload, number=b.number) for b in blocks]
    if change == "drop":
        pieces.pop(place)
    elif change == "twice":
        pieces.insert(place, pieces[place])
    elif change == "swap":
        other = random.randrange(len(pieces))
        pieces[place], pieces[other] = pieces[other], pieces[place]
    else:
        what = change
        if change == "kind":
            kind = random.randrange(256)
        elif change == "number":
            number = random.choice(_NUMBERS)
        else:
            payload, what = changed_json(payload, random) or blind(payload, random)
        pieces[place] = encode_block(kind, payload, number=number)
        change = what
    return b"".join(pieces), f"block {place} of {len(blocks)}: {change}"


def _framed_payloads(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(start, end, payload) of the records, as far as their lengths lead."""
    position = 0
    while position + 16 <= len(data):
        (length,) = struct.unpack_from("<Q", data, position)
        end = position + 16 + length
        if end > len(data):
            return
        yield position, end, data[position + 12 : end - 4]
        position = end


def _framed(payload: bytes, random: Random) -> bytes:
    length = struct.pack("<Q", len(payload))
    footer = FOOTER if random.random() < 0.8 else _masked(payload)  # mostly smdebug's
    return length + _masked(length) + payload + footer


def _masked(data: bytes) -> bytes:
    crc = int(google_crc32c.value(data))
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _parsed(data: bytes, schema: dict[int, Any]) -> list[Field]:
    fields: list[Field] = []
    try:
        for field in read_fields(memoryview(data), 0):
            value: Any = field.number_value
            if field.wire_type == BYTES:
                inner = schema.get(field.number)
                content = bytes(field.data)
                value = _parsed(content, inner) if inner is not None else content
            fields.append([field.number, field.wire_type, value])
    except WireError:
        pass  # what an earlier damage left: the fields before it
    return fields


def _written(fields: list[Field]) -> bytes:
    out = bytearray()
    for number, wire_type, value in fields:
        out += write_varint(number << 3 | wire_type)
        if wire_type == VARINT:
            out += write_varint(value)
        elif wire_type in {FIXED64, FIXED32}:
            size = 8 if wire_type == FIXED64 else 4
            out += (value % (1 << 8 * size)).to_bytes(size, "little")
        else:
            content = _written(value) if isinstance(value, list) else value
            out += write_varint(len(content)) + content
    return bytes(out)


def _changed_fields(fields: list[Field], random: Random) -> str:
    """Changes one field anywhere in the tree; says which."""
    path, here = "", fields
    while True:
        inner = [field for field in here if isinstance(field[2], list)]
        if not inner or random.random() < 0.2:  # mostly deep down, where the tensor is
            break
        chosen = random.choice(inner)
        path, here = f"{path}{chosen[0]}.", chosen[2]
    place = random.randrange(len(here)) if here else 0
    kind = random.choice(("change", "change", "change", "change", "remove", "twice", "add", "add", "packed"))
    if not here and kind != "packed":
        kind = "add"
    if kind == "remove":
        return f"removed {path}{here.pop(place)[0]}"
    if kind == "twice":
        here.insert(place, list(here[place]))
        return f"{path}{here[place][0]} twice"
    if kind == "change":
        here[place][1:] = _other_value(here[place], random)
        return f"{path}{here[place][0]} = {here[place][2]!r:.60}"
    if kind == "packed":
        here.append([random.choice(_VALUE_FIELDS), BYTES, random.randbytes(random.choice((0, 1, 3, 8, 64, 1000)))])
    else:
        here.append([random.choice((1, 2, 3, 4, 5, 8, 9, 15, 2**28)), *_other_value([0, VARINT, 0], random)])
    return f"added {path}{here[-1][0]} = {here[-1][2]!r:.60}"


def _other_value(field: Field, random: Random) -> list[Any]:
    wire_type = field[1] if random.random() < 0.8 else random.choice((VARINT, FIXED64, BYTES, FIXED32))
    if wire_type == VARINT:
        return [wire_type, random.choice((*_NUMBERS, *range(40)))]
    if wire_type == BYTES:
        text = random.choice(_TEXTS).encode("utf-8", "surrogatepass")
        nested = bytes([0x0A, 0x00]) * random.choice((1, 1000))
        return [wire_type, random.choice((b"", random.randbytes(8), b"\xff\xfe", text, nested, b"9" * 30, b"-1"))]
    return [wire_type, random.choice(_NUMBERS)]


def _changed_document(document: Any, random: Random) -> str:
    holder, name, path = _somewhere(document, random)
    if holder is None:
        return "nothing to change"
    kind = random.choice(("replace", "replace", "replace", "replace", "remove", "add"))
    if kind == "remove":
        del holder[name]
        return f"removed {path}"
    value = _other_json(holder[name], random)
    if kind == "add" and isinstance(holder, dict):
        holder[random.choice(_TEXTS)] = value
    elif kind == "add":
        holder.insert(name, holder[name] if random.random() < 0.5 else value)  # half
    else:
        holder[name] = value
    return f"{kind} {path} {value!r:.60}"


def _somewhere(document: Any, random: Random) -> tuple[Any, Any, str]:
    """(holder, name or place in it, path) of a value anywhere in the document."""
    holder, name, path, here = None, None, "", document
    while isinstance(here, (dict, list)) and here:
        holder = here
        name = random.choice(list(here)) if isinstance(here, dict) else random.randrange(len(here))
        path, here = f"{path}/{name}"[-60:], here[name]
        if random.random() < 0.15:  # mostly the leaves
            break
    return holder, name, path


def _other_json(value: Any, random: Random) -> Any:
    """Mostly of the same kind, so that it passes the first look."""
    if random.random() < 0.3:  # sometimes of another
        return random.choice((None, True, False, [], {}, [[]], "x", 1, 1.5, float("nan"), 1e308, _DEEP, _DIGITS))
    return random.choice(next(others(value) for kind, others in _LIKE if isinstance(value, kind)))


_LIKE: tuple[tuple[type, Callable[[Any], tuple[Any, ...]]], ...] = (
    (bool, lambda value: (not value,)),
    (int, lambda value: (*_NUMBERS, -1, -(2**63), 2**200, value + 1, max(0, value - 1), value * 2)),
    (float, lambda value: (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e308, -value)),
    (list, lambda value: ([], value * 2, value[::-1], value[:1], [value])),
    (dict, lambda value: ({}, {"x": value}, [value])),
    (object, lambda value: (*_TEXTS, f"{value}x", str(value)[:-1])),
)
_Change: TypeAlias = "Callable[[bytes, Random], tuple[bytes, str] | None]"
_BY_SUFFIX: dict[str, _Change] = {
    ".tfevents": changed_event_file,
    ".jsonl": changed_json_lines,
    ".json": changed_json,
    ".tpi": changed_blocks,
    ".tss": changed_blocks,
}
