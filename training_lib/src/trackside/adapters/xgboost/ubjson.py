"""Reads a model in XGBoost's binary form: UBJSON (ubjson.org), arrays of numbers without a copy."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_DTYPES = {ord(kind): np.dtype(code) for kind, code in _NUMBERS.items()}
_UNPACK = {kind: (struct.Struct(f">{code}").unpack_from, struct.calcsize(code)) for kind, code in
           (("i", "b"), ("U", "B"), ("I", "h"), ("l", "i"), ("L", "q"), ("d", "f"), ("D", "d"))}  # fmt: skip
_LONG, _ARRAY, _TYPE, _END = ord("L"), ord("["), ord("$"), ord("}")
_long = struct.Struct(">q").unpack_from
_WORDS: dict[str, Any] = {"Z": None, "T": True, "F": False}


def read(data: bytes) -> Any:
    """Return the value: objects as dictionaries, arrays of one type of numbers as NumPy arrays, others as lists.

    Raises:
        ValueError: The data are not of this form, or end too early.
    """
    try:
        return _Reader(data).value()
    except (struct.error, IndexError, KeyError, RecursionError) as error:
        raise ValueError(f"no UBJSON: {error!r}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def value(self) -> Any:
        kind = self._byte()
        if kind in _UNPACK:
            return self._number(kind)
        if kind == "S":
            return self._text()
        if kind == "{":
            return self._object()
        if kind == "[":
            return self._array()
        return _WORDS[kind]

    def _byte(self) -> str:
        self._at += 1
        return chr(self._data[self._at - 1])

    def _next_is(self, wanted: str) -> bool:
        is_next = chr(self._data[self._at]) == wanted
        self._at += is_next
        return is_next

    def _number(self, kind: str) -> Any:
        unpack, size = _UNPACK[kind]
        self._at += size
        return unpack(self._data, self._at - size)[0]

    def _count(self) -> int:
        return int(self._number(self._byte()))

    def _text(self) -> str:
        data, at = self._data, self._at
        if data[at] == _LONG:
            count = _long(data, at + 1)[0]
            self._at = at + 9
        else:
            count = self._count()
        if not 0 <= count <= len(data) - self._at:
            raise ValueError(f"no UBJSON: a text of {count} bytes at {self._at} of {len(data)}")
        self._at += count
        return data[self._at - count : self._at].decode("utf-8")

    def _object(self) -> dict[str, Any]:
        data, found = self._data, dict[str, Any]()
        while data[self._at] != _END:
            name = self._text()
            at = self._at
            if data[at] == _ARRAY and data[at + 1] == _TYPE and data[at + 4] == _LONG:  # nearly all of a tree
                numbers = found[name] = np.frombuffer(data, _DTYPES[data[at + 2]], _long(data, at + 5)[0], at + 13)
                self._at = at + 13 + numbers.nbytes
            else:
                found[name] = self.value()
        self._at += 1
        return found

    def _array(self) -> Any:
        if self._next_is("$"):
            kind = self._byte()
            self._at += 1  # the sign of a count
            numbers = np.frombuffer(self._data, _NUMBERS[kind], self._count(), self._at)
            self._at += numbers.nbytes
            return numbers
        if self._next_is("#"):
            return [self.value() for _ in range(self._count())]
        found = []
        while not self._next_is("]"):
            found.append(self.value())
        return found
