"""Blocks: what is whole is read, what is cut off is left for later, and damage costs what it hit and no more."""

from __future__ import annotations

import struct
import time

import google_crc32c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trackside.records.block_file import (
    FOOTER_BYTES,
    HEAD_BYTES,
    MARK,
    MOST_PAYLOAD_BYTES,
    Block,
    encode_block,
    read_blocks,
)

FRAME = HEAD_BYTES + FOOTER_BYTES

payloads = st.binary(max_size=60) | st.sampled_from([MARK, MARK * 3, encode_block(1, b"inner", number=0)[:-1]])


def joined(contents: list[bytes]) -> bytes:
    return b"".join(encode_block(1, payload, number=number) for number, payload in enumerate(contents))


def head(length: int, *, kind: int = 1, number: int = 0, mark: bytes = MARK) -> bytes:
    """A head that is right in itself, whatever follows."""
    fields = struct.pack("<4sB3xQI", mark, kind, number, length)
    return fields + struct.pack("<I", google_crc32c.value(fields))


@given(st.lists(payloads), st.integers(0, 2**40))
def test_reads_what_was_written(contents: list[bytes], offset: int) -> None:
    data = joined(contents)
    found = read_blocks(data, key="k", offset=offset)
    assert [(block.kind, block.number, block.payload) for block in found.blocks] == [
        (1, number, payload) for number, payload in enumerate(contents)
    ]
    sizes = [FRAME + len(payload) for payload in contents]
    assert [block.offset for block in found.blocks] == [offset + sum(sizes[:n]) for n in range(len(sizes))]
    assert (found.end, found.damage) == (offset + len(data), ())


@given(st.lists(payloads, min_size=1), st.data())
def test_leaves_a_torn_tail_for_later(contents: list[bytes], data: st.DataObject) -> None:
    """Reading in any two pieces finds what reading at once does, and calls nothing damaged."""
    whole = joined(contents)
    cut = data.draw(st.integers(0, len(whole)))
    before = read_blocks(whole[:cut], key="k")
    after = read_blocks(whole[before.end :], key="k", offset=before.end)
    assert before.blocks + after.blocks == read_blocks(whole, key="k").blocks
    assert before.damage == after.damage == ()
    assert after.end == len(whole)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"kind": 0, "number": 0, "payload": b""}, id="the least"),
        pytest.param({"kind": 255, "number": 2**64 - 1, "payload": b"x"}, id="the most"),
        pytest.param({"kind": 7, "number": 3, "payload": MARK * 50}, id="marks in the payload"),
    ],
)
def test_holds_any_kind_and_number(block: dict[str, object]) -> None:
    data = encode_block(block["kind"], block["payload"], number=block["number"])  # type: ignore[arg-type]  # a table
    assert read_blocks(data, key="k").blocks == (Block(**block, offset=0),)  # type: ignore[arg-type]  # a table


@pytest.mark.parametrize(
    ("kind", "number", "size"),
    [
        pytest.param(256, 0, 0, id="kind"),
        pytest.param(-1, 0, 0, id="negative kind"),
        pytest.param(0, 2**64, 0, id="number"),
        pytest.param(0, -1, 0, id="negative number"),
        pytest.param(0, 0, MOST_PAYLOAD_BYTES + 1, id="payload"),
    ],
)
def test_refuses_what_no_block_can_be(kind: int, number: int, size: int) -> None:
    with pytest.raises(ValueError, match="No block is of kind"):
        encode_block(kind, bytes(size), number=number)


GOOD = encode_block(1, b"good", number=9)


@pytest.mark.parametrize(
    ("damaged", "what"),
    [
        pytest.param(b"XXXX", "mark TSB1", id="rubbish"),
        pytest.param(b"XXXX" + GOOD[4:], "mark TSB1", id="another mark"),
        pytest.param(GOOD[:9] + b"\xff" + GOOD[10:], "a block's head", id="a head's byte"),
        pytest.param(GOOD[:-6] + b"X" + GOOD[-5:], "a block's payload", id="a payload's byte"),
        pytest.param(GOOD[:-1] + b"X", "a block's payload", id="a footer's byte"),
        pytest.param(GOOD[:-1], "a block's payload", id="a byte lost"),
        pytest.param(GOOD[:20], "a block's head", id="cut in its head"),
        pytest.param(head(MOST_PAYLOAD_BYTES + 1), "67108865 bytes", id="too long for any"),
        pytest.param(head(2000), "cut off", id="longer than what is there"),
        pytest.param(head(2**32 - 1), "4294967295 bytes", id="the longest that can be said"),
    ],
)
def test_passes_over_damage_and_says_where(damaged: bytes, what: str) -> None:
    found = read_blocks(GOOD + damaged + GOOD + GOOD, key="the key", offset=1000)
    assert [block.payload for block in found.blocks] == [b"good"] * 3
    (error,) = found.damage
    assert (error.key, error.offset) == ("the key", 1000 + len(GOOD))
    assert what in error.what
    assert found.end == 1000 + 3 * len(GOOD) + len(damaged)


@pytest.mark.parametrize("tail", [b"T", MARK, head(4), head(4) + b"go", head(2**26), b"rubbish"])
def test_a_tail_may_still_become_a_block(tail: bytes) -> None:
    found = read_blocks(GOOD + tail, key="k")
    assert (len(found.blocks), found.end, found.damage) == (1, len(GOOD), ())


@settings(max_examples=300)
@given(st.lists(payloads, min_size=1, max_size=8), st.data())
def test_a_changed_byte_costs_one_block(contents: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(joined(contents))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    found = read_blocks(bytes(whole), key="k")
    intact = {(number, payload) for number, payload in enumerate(contents)}
    read = {(block.number, block.payload) for block in found.blocks} - {(0, b"inner")}
    assert read <= intact
    assert len(intact - read) <= 1


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=40) | st.just(GOOD) | st.builds(head, st.integers(0, 2**32 - 1))))
@example([head(4)] * 40 + [GOOD])
def test_any_bytes_at_all(parts: list[bytes]) -> None:
    data = b"".join(parts)
    found = read_blocks(data, key="k")
    assert 0 <= found.end <= len(data)
    assert all(data[error.offset : error.offset + 4] != GOOD for error in found.damage)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda rest: head(max(0, rest - FRAME)), id="every head claims the rest"),
        pytest.param(lambda rest: head(max(0, rest - FRAME - 1)) + GOOD, id="and intact blocks stand between"),
        pytest.param(lambda _rest: MARK, id="marks alone"),
        pytest.param(lambda _rest: head(2**26), id="heads that claim too much"),
    ],
)
def test_work_is_linear_in_what_is_there(part: object) -> None:
    """Four million bytes of claims would take minutes if each of them were believed."""
    size = 4_000_000
    pieces: list[bytes] = []
    left = size
    while left > 0:
        pieces.append(part(left))  # type: ignore[operator]  # a table of functions
        left -= len(pieces[-1])
    data = b"".join(pieces)
    started = time.process_time()
    found = read_blocks(data, key="k")
    assert time.process_time() - started < 3
    assert found.end <= len(data)


def test_what_is_given_up_is_said_and_reading_goes_on_behind_it() -> None:
    size = 400_000
    data = b"".join(head(max(0, size - place - FRAME)) for place in range(0, size, HEAD_BYTES))
    found = read_blocks(data, key="k", offset=50)
    assert found.blocks == ()
    assert found.end == 50 + len(data)
    assert "is dropped" in found.damage[-1].what
    assert len(read_blocks(GOOD, key="k", offset=found.end).blocks) == 1
