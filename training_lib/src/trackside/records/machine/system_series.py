"""Read files of system metrics by whole blocks: the samples of each number of each device as arrays.

A file is mostly the same lines again and again with other numbers: a head that ends with `"Value":`, a number, a middle
with the machine, and the moment. Such a block is taken apart by arrays, and each distinct head is decoded once. A file
in another form, or with damage, is decoded line by line.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import RecordError
from trackside.records.machine.system_metrics_file import SystemSample, decode_system_metrics

_QUOTE, _CLOSE, _END, _ESCAPE = b'"'[0], b"}"[0], b"\n"[0], b"\\"
_MOST_LINE_BYTES = 4096
_QUOTES_BEHIND = 8  # of a line, from that before Value to its end
_ZERO, _POINT = np.frombuffer(b"0.", np.uint8)
_MOST_CHARACTERS = 18  # of a number that is read as a whole one: 64 bits hold it
_EXACT = 1 << 53
_POWERS = 10.0 ** np.arange(_MOST_CHARACTERS + 1)

_Places = NDArray[np.int64]


class SystemSeries(NamedTuple):
    """Samples of one number of one device.

    Attributes:
        kind: Its type, such as `cpu`.
        name: Name of the device; "" for none.
        dimension: Its dimension, such as `CPUUtilization`.
        node: The machine.
        times: Seconds since the epoch, float64 of shape (n,).
        values: float64 of shape (n,).
    """

    kind: str
    name: str
    dimension: str
    node: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]


def decode_system_series(data: bytes, *, key: str) -> Iterator[SystemSeries]:
    """Yield the samples of one file by their numbers, as `decode_system_metrics` reads them. A number may come twice.

    Raises:
        RecordError: As there, after the samples before the damage.
    """
    whole = data[: data.rfind(b"\n") + 1]
    found = _series_of(whole)
    if found is None:
        yield from _by_line(data, key)
    else:
        yield from found
        yield from _by_line(data[len(whole) :], key)


@dataclass
class _Numbers:
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))


def _by_line(data: bytes, key: str) -> Iterator[SystemSeries]:
    found: dict[tuple[str, str, str, str], _Numbers] = {}
    damage: RecordError | None = None
    try:
        for sample in decode_system_metrics(data, key=key):
            numbers = found.setdefault((sample.kind, sample.name, sample.dimension, sample.node), _Numbers())
            numbers.times.append(sample.timestamp)
            numbers.values.append(sample.value)
    except RecordError as error:
        damage = error
    for of, numbers in found.items():
        yield SystemSeries(*of, np.array(numbers.times), np.array(numbers.values))
    if damage is not None:
        raise damage


class _Block(NamedTuple):
    """Places in n whole lines, int64 of shape (n,): of each, and of the ends of its head, value, middle, moment."""

    starts: _Places
    heads: _Places
    values: _Places
    middles: _Places
    moments: _Places


def _series_of(data: bytes) -> list[SystemSeries] | None:
    """Return the samples of whole lines; None if they have another form than the usual one, or damage."""
    block = _block(data)
    if block is None:
        return None
    values = _numbers(data, block.heads, block.values)
    times = _numbers(data, block.middles, block.moments)
    if values is None or times is None:
        return None
    middle = data[block.values[0] : block.middles[0]]
    heads, numbers = _heads(data, block.starts, block.heads - block.starts)
    described = [_described(head, middle) for head in heads]
    order = np.argsort(numbers.astype(np.min_scalar_type(len(heads))), kind="stable")  # of 16 bits it is much faster
    bounds = np.searchsorted(numbers[order], np.arange(len(heads) + 1))
    found = []
    for number, one in enumerate(described):
        if one is None:
            return None
        of = order[bounds[number] : bounds[number + 1]]
        found.append(SystemSeries(one.kind, one.name, one.dimension, one.node, times[of], values[of]))
    return found


def _block(data: bytes) -> _Block | None:
    if not data or _ESCAPE in data or b"\r" in data:
        return None
    text = np.frombuffer(data, np.uint8)
    ends, quotes = np.flatnonzero(text == _END), np.flatnonzero(text == _QUOTE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    last = np.searchsorted(quotes, ends)  # of each line: the quotes before its end
    is_usual = (np.diff(last, prepend=0) >= _QUOTES_BEHIND) & (ends - starts <= _MOST_LINE_BYTES)
    if not is_usual.all() or (text[ends - 1] != _CLOSE).any():
        return None
    values, middles = quotes[last - 6] - 1, quotes[last - 1] + 2  # up to the comma before NodeId, and behind Timestamp
    middle = data[values[0] : middles[0]]
    if (middles - values != len(middle)).any() or (_texts(data, values, len(middle)) != middle).any():
        return None
    return _Block(starts, quotes[last - 7] + 2, values, middles, ends - 1)


@lru_cache(maxsize=4096)
def _described(head: bytes, middle: bytes) -> SystemSample | None:
    """Return the sample of a line with these texts, and the number and moment 0; None if it is none."""
    if not (head.endswith(b'"Value":') and middle.endswith(b'"Timestamp":')):
        return None
    return next(decode_system_metrics(b"%s0%s0}" % (head, middle), key=""), None)


def _heads(data: bytes, starts: _Places, lengths: _Places) -> tuple[list[bytes], _Places]:
    """Return the distinct texts of these places, and the number of each place's text among them.

    Each sample of a machine mostly has the same lines as the one before. So the texts from the middle of the file on,
    up to the first that comes again, are expected to come in turn; only those that do not are looked up one by one.
    """
    middle = len(starts) // 2
    turn: list[bytes] = []
    for start, length in zip(starts[middle:].tolist(), lengths[middle:].tolist(), strict=True):
        head = data[start : start + length]
        if turn and head == turn[0]:
            break
        turn.append(head)
    known: dict[bytes, int] = {}
    numbers = np.array([known.setdefault(head, len(known)) for head in turn])
    in_turn = (np.arange(len(starts)) - middle) % len(turn)
    found = numbers[in_turn]
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        places = np.flatnonzero(lengths == length)
        heads = _texts(data, starts[places], length)
        expected = np.array(turn, f"S{max(length, 1)}")[in_turn[places]]
        is_other = (heads != expected) | (lengths[(middle + in_turn[places]) % len(starts)] != length)
        others = np.flatnonzero(is_other)
        found[places[others]] = [known.setdefault(head, len(known)) for head in heads[others].tolist()]
    return list(known), found


def _texts(data: bytes, starts: _Places, length: int) -> NDArray[np.bytes_]:
    """Return the texts of one length at these places, of shape (n,)."""
    at_each_place: NDArray[np.bytes_] = np.ndarray(len(data) - length + 1, f"S{length}", data, strides=(1,))
    return at_each_place[starts]


def _numbers(data: bytes, starts: _Places, ends: _Places) -> NDArray[np.float64] | None:
    """Return the numbers between these places, of shape (n,); None if one is none, or not finite."""
    lengths = ends - starts
    if lengths.min() < 1:
        return None
    found = np.empty(len(starts))
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        places = np.flatnonzero(lengths == length)
        texts = _texts(data, starts[places], length)
        is_new = np.append(True, texts[1:] != texts[:-1])  # a moment is that of many lines
        numbers = _plain_numbers(texts[is_new], length)
        if numbers is None:
            return None
        found[places] = numbers[np.cumsum(is_new) - 1]
    return found if np.isfinite(found).all() else None


def _plain_numbers(texts: NDArray[np.bytes_], length: int) -> NDArray[np.float64] | None:
    """Return the numbers of texts of one length, as `float` does; None if one is none.

    Digits with at most one point are a whole number below 2 ** 53 over a power of ten below 10 ** 23: both are exact,
    and so is the rounding of their quotient.
    """
    whole, points, decimals = np.zeros((3, len(texts)), np.int64)
    is_plain = np.full(len(texts), length <= _MOST_CHARACTERS)
    characters = texts.view(np.uint8).reshape(len(texts), length)
    for column in np.ascontiguousarray(characters[:, :_MOST_CHARACTERS].T):
        digits, is_point = column - _ZERO, column == _POINT
        is_plain &= (digits <= 9) | is_point
        decimals += points
        if not is_point.any():
            whole *= 10
            whole += digits
        else:  # it is the same column in most texts of one length
            points += is_point
            if not is_point.all():
                whole = np.where(is_point, whole, 10 * whole + digits)
    is_plain &= (points <= 1) & (points < length) & (whole < _EXACT)
    found = whole / _POWERS[np.where(is_plain, decimals, 0)]
    others = np.flatnonzero(~is_plain)
    for place, text in zip(others.tolist(), texts[others].tolist(), strict=True):
        try:
            found[place] = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            return None
    return found
