"""A reader for JSON files of a run. Nothing in them is trusted."""

from __future__ import annotations

import json
import sys
from typing import Any

from trackside.contracts.errors import RecordError

# A JSON file of a run is refused beyond either, so that parsing one takes 350 MB at most. An index of one step with
# 300 000 tensors stays below.
MOST_JSON_BYTES = 32 << 20
MOST_JSON_VALUES = 2_000_000
_LARGEST_NUMBER = sys.float_info.max
_MOST_SECONDS = 1e12  # which rules out infinity, and numbers that no float holds


class UntrustedJson:
    """A JSON object in the file `key`. Every method raises `RecordError`, which names the file and the field.

    The error's `offset` is 0 for wrong values, because JSON's parser keeps no positions.
    """

    def __init__(self, value: Any, *, key: str, where: str) -> None:
        self.key, self._where = key, where
        if not isinstance(value, dict):
            raise self.error(f"is {_kind(value)}, not an object")
        self._fields: dict[str, Any] = value

    @classmethod
    def parse(cls, data: bytes, *, key: str) -> UntrustedJson:
        """Return the whole file as an object.

        The caller fetches at most `MOST_JSON_BYTES` + 1 bytes, so that no more of a larger file is read.
        """
        if len(data) > MOST_JSON_BYTES:
            raise RecordError(
                key, MOST_JSON_BYTES, f"is larger than the {MOST_JSON_BYTES >> 20} MiB that are read of it"
            )
        if sum(map(data.count, (b",", b"[", b"{"))) > MOST_JSON_VALUES:
            raise RecordError(key, 0, f"holds more than the {MOST_JSON_VALUES} values that are read of it")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RecordError(key, error.start, "is not UTF-8 text") from error
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            offset = len(text[: error.pos].encode("utf-8"))
            raise RecordError(key, offset, f"is empty or not whole JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or endless nesting
            raise RecordError(key, 0, f"is not JSON that can be read: {error}") from error
        return cls(value, key=key, where="")

    def error(self, what: str) -> RecordError:
        """Return an error about this object."""
        return RecordError(self.key, 0, f"{self._where or 'the file'} {what}")

    def names(self) -> tuple[str, ...]:
        """Return the names of all fields."""
        for name in self._fields:
            self._text("a field's name", name)
        return tuple(self._fields)

    def has(self, name: str) -> bool:
        """Return True if the field exists and is not null."""
        return self._fields.get(name) is not None

    def is_list(self, name: str) -> bool:
        """Return True if the field holds a list."""
        return isinstance(self._fields.get(name), list)

    def object(self, name: str) -> UntrustedJson:
        return UntrustedJson(self._fields.get(name), key=self.key, where=self._at(name))

    def objects(self, name: str) -> tuple[UntrustedJson, ...]:
        return tuple(
            UntrustedJson(item, key=self.key, where=f"{self._at(name)}[{place}]")
            for place, item in enumerate(self._list(name))
        )

    def text(self, name: str) -> str:
        return self._text(name, self._fields.get(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self._text(name, item) for item in self._list(name))

    def boolean(self, name: str, default: bool) -> bool:
        return bool(self._checked(name, self._fields.get(name, default), bool, "true or false"))

    def count(self, name: str, default: int | None = None) -> int:
        """Return a whole number from 0 on that fits 63 bits, or the default for an absent one."""
        return self._count(name, self._fields.get(name, default))

    def step(self, name: str) -> int:
        """Return a step within a mode: a whole number as in `count`, or smdebug's -1 before the mode's first step."""
        value = self._fields.get(name)
        return -1 if type(value) is int and value == -1 else self._count(name, value)

    def counts(self, name: str) -> tuple[int, ...]:
        return tuple(self._count(name, item) for item in self._list(name))

    def number(self, name: str) -> float:
        """Return a number, whole or not. NaN and infinity are refused, for our files have neither."""
        return self._number(name, self._fields.get(name))

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers as in `number`."""
        return tuple(self._number(name, item) for item in self._list(name))

    def seconds(self, name: str) -> float:
        """Return a number of seconds above 0."""
        number: Any = self._fields.get(name)
        is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
        if not is_number or not 0 < number < _MOST_SECONDS:
            raise self.error(f"has {name} = {str(number)[:30]}, not a number of seconds above 0")
        return float(number)

    def _number(self, name: str, value: Any) -> float:
        number: Any = self._checked(name, value, (int, float), "a number")
        if isinstance(number, bool) or not abs(number) <= _LARGEST_NUMBER:
            raise self.error(f"has {name} = {str(number)[:30]}, not a finite number")
        return float(number)

    def _text(self, name: str, value: Any) -> str:
        text = str(self._checked(name, value, str, "a text"))
        if not _is_unicode(text):
            raise self.error(f"has {name} = {text[:30]!a}, which is not valid Unicode")
        return text

    def _count(self, name: str, value: Any) -> int:
        number = self._checked(name, value, int, "a whole number")
        if isinstance(number, bool) or not 0 <= number < 2**63:
            raise self.error(f"has {name} = {str(number)[:30]}, not a whole number from 0 on")
        return int(number)

    def _list(self, name: str) -> list[Any]:
        value = self._fields.get(name)
        if value is None:
            return []
        return list(self._checked(name, value, list, "a list"))

    def _checked(self, name: str, value: Any, kind: type | tuple[type, ...], words: str) -> Any:
        if not isinstance(value, kind):
            found = _kind(value) if name in self._fields else "missing"
            raise self.error(f"has {name} = {found}, not {words}" if found != "missing" else f"has no {name}")
        return value

    def _at(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def _is_unicode(text: str) -> bool:
    """Return False for half of a surrogate pair, which JSON can spell and nothing can store or print."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    if value is None:
        return "null or missing"
    return {dict: "an object", list: "a list", str: "a text", bool: "true or false"}.get(type(value), "a number")
