"""Blocks: the frame of every growing file of our own. A reader recognises whole blocks and goes on after damage.

    mark       4 bytes  "TSB1"
    kind       1 byte   the kind of payload; 0 is the file's header, the first block
    reserved   3 bytes  zero
    number     8 bytes  uint64, little-endian: counts the blocks of one writer from 0
    length     4 bytes  uint32, little-endian: of the payload
    check      4 bytes  CRC-32C of the 20 bytes before
    payload
    footer     4 bytes  CRC-32C of the payload

The specification for other readers is docs/formats/blocks.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c

from trackside.contracts.errors import RecordError

MARK = b"TSB1"
HEADER_KIND = 0
MOST_PAYLOAD_BYTES = 64 << 20

_MOST_SPENT = 4  # times the bytes at hand
_GIVEN_UP = "damage that claims the same bytes again and again: the rest of this read is dropped"

_HEAD = struct.Struct("<4sB3xQI")
_CHECK = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CHECK.size
FOOTER_BYTES = _CHECK.size


@dataclass(frozen=True)
class Block:
    """One whole block. `offset` is its first byte in the file."""

    kind: int
    number: int
    payload: bytes
    offset: int


@dataclass(frozen=True)
class ReadBlocks:
    """The result of `read_blocks`.

    blocks  whole blocks
    end     offset from which no block is whole yet
    damage  an error for each damaged place
    """

    blocks: tuple[Block, ...]
    end: int
    damage: tuple[RecordError, ...] = ()


def encode_block(kind: int, payload: bytes, *, number: int) -> bytes:
    """Return one block.

    Raises:
        ValueError: A block cannot have this kind, number or size.
    """
    if not (0 <= kind < 256 and 0 <= number < 2**64 and len(payload) <= MOST_PAYLOAD_BYTES):
        raise ValueError(f"No block is of kind {kind}, number {number} and {len(payload)} bytes.")
    head = _HEAD.pack(MARK, kind, number, len(payload))
    return b"".join((head, _crc(head), payload, _crc(payload)))


def read_blocks(data: bytes, *, key: str, offset: int = 0) -> ReadBlocks:
    """Return all whole blocks in `data`, which lies at `offset` of the file `key`.

    The last block may be cut off, in a file that grows or after its writer was killed: it is left for later, and begins
    at `end`. Damage is skipped up to the next intact block, and reported. No memory is allocated by a length in the
    file: it only has to lie within `data`. The work is linear in `data`: if a forged file would make the search more
    costly, the rest of `data` is given up, and that is reported too.
    """
    search = _Search(data, key, offset)
    blocks: list[Block] = []
    damage: list[RecordError] = []
    position = 0
    while position < len(data):
        found = search.block_at(position)
        if isinstance(found, Block):
            blocks.append(found)
            position += HEAD_BYTES + len(found.payload) + FOOTER_BYTES
            continue
        following = search.next_intact(position + 1)
        if search.is_exhausted:
            damage.append(RecordError(key, offset + position, _GIVEN_UP))
            position = len(data)
            break
        if following is None:
            break  # cut off, or damaged to the end: more data will show which
        damage.append(found or RecordError(key, offset + position, "a block is cut off by the one that follows"))
        position = following
    return ReadBlocks(tuple(blocks), offset + position, tuple(damage))


class _Search:
    """A search for blocks in `data`, with a limit on the bytes of damaged payloads that it checks.

    Real damage costs each byte twice: once in its own block, once on the way to the next. Only forged marks and heads
    can claim the same bytes many times; the limit keeps their cost linear.
    """

    def __init__(self, data: bytes, key: str, offset: int) -> None:
        self._data, self._key, self._offset = data, key, offset
        self._spendable = _MOST_SPENT * len(data)
        self.is_exhausted = False

    def block_at(self, position: int) -> Block | RecordError | None:
        """Return the block at `position`, its fault, or None if `data` ends within it."""
        data, where = self._data, self._offset + position
        if len(data) - position < HEAD_BYTES:
            return None
        mark, kind, number, length = _HEAD.unpack_from(data, position)
        wrong = _wrong_in_head(mark, length, data[position : position + HEAD_BYTES])
        if wrong:
            return RecordError(self._key, where, wrong)
        start, end = position + HEAD_BYTES, position + HEAD_BYTES + length
        if end + FOOTER_BYTES > len(data):
            return None
        payload = data[start:end]
        if data[end : end + FOOTER_BYTES] != _crc(payload):
            self._spendable -= length
            return RecordError(self._key, where, "the checksum of a block's payload does not match")
        return Block(kind, number, payload, where)

    def next_intact(self, position: int) -> int | None:
        """Return the position of the next whole and intact block. None: none is left, or the search `is_exhausted`."""
        data = self._data
        while (position := data.find(MARK, position)) >= 0:
            if self._spendable < 0:
                self.is_exhausted = True
                return None
            is_head = data[position + _HEAD.size : position + HEAD_BYTES] == _crc(
                data[position : position + _HEAD.size]
            )
            if is_head and isinstance(self.block_at(position), Block):
                return position
            position += 1
        return None


def _wrong_in_head(mark: bytes, length: int, head: bytes) -> str:
    if mark != MARK:
        return "a block begins with the mark TSB1, which is not here"
    if head[_HEAD.size :] != _crc(head[: _HEAD.size]):
        return "the checksum of a block's head does not match"
    if length > MOST_PAYLOAD_BYTES:
        return f"a block claims {length} bytes; the most is {MOST_PAYLOAD_BYTES}"
    return ""


def _crc(data: bytes) -> bytes:
    return _CHECK.pack(int(google_crc32c.value(data)))
