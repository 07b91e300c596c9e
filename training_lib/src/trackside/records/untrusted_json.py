"""JSON from files of a run, read as what the file should hold; nothing in it is trusted."""

from __future__ import annotations

import json
from typing import Any

from trackside.contracts.errors import RecordError


class UntrustedJson:
    """A JSON object in the file `key`. Every method raises `RecordError`, which names the file and the field.

    `offset` is where in the file the trouble is said to be: JSON's parser keeps no positions, so it is 0 for values.
    """

    def __init__(self, value: Any, *, key: str, where: str) -> None:
        self.key, self._where = key, where
        if not isinstance(value, dict):
            raise self.error(f"is {_kind(value)}, not an object")
        self._fields: dict[str, Any] = value

    @classmethod
    def parse(cls, data: bytes, *, key: str) -> UntrustedJson:
        """The whole file as an object."""
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
        """An error about this object."""
        return RecordError(self.key, 0, f"{self._where or 'the file'} {what}")

    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(self._fields)

    def has(self, name: str) -> bool:
        """True if the field is there and not null."""
        return self._fields.get(name) is not None

    def is_list(self, name: str) -> bool:
        """True if the field holds a list."""
        return isinstance(self._fields.get(name), list)

    def object(self, name: str) -> UntrustedJson:
        return UntrustedJson(self._fields.get(name), key=self.key, where=self._at(name))

    def objects(self, name: str) -> tuple[UntrustedJson, ...]:
        return tuple(
            UntrustedJson(item, key=self.key, where=f"{self._at(name)}[{place}]")
            for place, item in enumerate(self._list(name))
        )

    def text(self, name: str) -> str:
        return str(self._checked(name, self._fields.get(name), str, "a text"))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(str(self._checked(name, item, str, "a text")) for item in self._list(name))

    def boolean(self, name: str, default: bool) -> bool:
        return bool(self._checked(name, self._fields.get(name, default), bool, "true or false"))

    def count(self, name: str) -> int:
        """A whole number from 0 on that fits 63 bits."""
        return self._count(name, self._fields.get(name))

    def counts(self, name: str) -> tuple[int, ...]:
        return tuple(self._count(name, item) for item in self._list(name))

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

    def _checked(self, name: str, value: Any, kind: type, words: str) -> Any:
        if not isinstance(value, kind):
            found = _kind(value) if name in self._fields else "missing"
            raise self.error(f"has {name} = {found}, not {words}" if found != "missing" else f"has no {name}")
        return value

    def _at(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def _kind(value: Any) -> str:
    if value is None:
        return "null or missing"
    return {dict: "an object", list: "a list", str: "a text", bool: "true or false"}.get(type(value), "a number")
