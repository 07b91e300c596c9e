"""The reader of plain JSON into contract types. It collects every problem, so that one error can list them all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class Fields:
    """One JSON object during reading: read each field once, then call `finish`.

    where     path of the object, for problems
    problems  problems found so far; inner objects share the list
    """

    def __init__(self, data: Any, *, where: str, problems: list[Problem] | None = None) -> None:
        self.where = where
        self.problems: list[Problem] = [] if problems is None else problems
        self._read_names: set[str] = set()
        if not isinstance(data, Mapping):
            self.problem("", f"must be an object, but is {_kind(data)}.")
            data = {}
        self._data: Mapping[str, Any] = data

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def has(self, name: str) -> bool:
        """Return True if a value other than null is given. The name then counts as known."""
        self._read_names.add(name)
        return self._data.get(name) is not None

    def is_object(self, name: str) -> bool:
        """Return True if the value is an object."""
        return isinstance(self._data.get(name), Mapping)

    def is_number(self, name: str) -> bool:
        """Return True if the value is a finite number."""
        number = read_number(self._data.get(name))
        return number is not None and math.isfinite(number)

    def digits(self, name: str) -> str:
        """Return the digits of a whole number that is written as a text (1 to 18 digits), else ""."""
        value = self._data.get(name)
        return value if isinstance(value, str) and re.fullmatch("[0-9]{1,18}", value) else ""

    def problem(self, name: str, what: str, fix: str = "") -> None:
        where = ".".join(part for part in (self.where, name) if part) or "the whole of it"
        self.problems.append(Problem(where=where, what=what, fix=fix))

    def text(self, name: str, default: str | None = None) -> str:
        return self._take(name, default, lambda v: isinstance(v, str), "text") or ""

    def integer(self, name: str, default: int | None = None, *, minimum: int | None = None) -> int:
        value = self._take(name, default, _is_integer, "a whole number")
        if value is not None and minimum is not None and int(value) < minimum:
            self.problem(name, f"must be at least {minimum}, but is {value}.")
        return int(value) if value is not None else 0

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number. `"NaN"`, `"Infinity"` and `"-Infinity"` count, for JSON has no form for them."""
        self._read_names.add(name)
        value = self._data.get(name, default)
        number = read_number(value)
        if number is None:
            self.problem(name, _wanted("a number", name in self._data, value))
            return math.nan
        return number

    def boolean(self, name: str, default: bool | None = None) -> bool:
        return bool(self._take(name, default, lambda v: isinstance(v, bool), "true or false"))

    def texts(self, name: str, default: Iterable[str] | None = None) -> tuple[str, ...]:
        value = self._take(
            name,
            None if default is None else list(default),
            lambda v: isinstance(v, list | tuple) and all(isinstance(item, str) for item in v),
            "a list of texts",
        )
        return tuple(value or ())

    def integers(
        self, name: str, default: Iterable[int] | None = None, *, minimum: int | None = None
    ) -> tuple[int, ...]:
        value = self._take(
            name,
            None if default is None else list(default),
            lambda v: isinstance(v, list | tuple) and all(_is_integer(item) for item in v),
            "a list of whole numbers",
        )
        numbers = tuple(value or ())
        if minimum is not None and any(number < minimum for number in numbers):
            self.problem(name, f"must hold numbers of at least {minimum}, but is {list(numbers)}.")
        return numbers

    def mapping(self, name: str, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        value = self._take(name, default, lambda v: isinstance(v, Mapping), "an object")
        return value if isinstance(value, Mapping) else {}

    def choice(self, name: str, kind: type[E], default: E | None = None) -> E:
        """Return one value of an enumeration. Anything else is a problem that lists the choices."""
        self._read_names.add(name)
        value = self._data.get(name, default)
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(str(choice.value) for choice in kind)
            self.problem(name, _wanted(f"one of {choices}", name in self._data, value))
            return next(iter(kind))

    def choices(self, name: str, kind: type[E], default: Iterable[E] | None = None) -> tuple[E, ...]:
        """Return a list of values of an enumeration, each once, in the order given."""
        if name not in self._data and default is not None:
            self._read_names.add(name)
            return tuple(default)
        known = {choice.value: choice for choice in kind}
        found: dict[E, None] = {}
        for word in self.texts(name):
            if word in known:
                found[known[word]] = None
            else:
                self.problem(name, f"{word!r} is not known.", did_you_mean(word, known))
        return tuple(found)

    def anything_in(self, name: str) -> tuple[Any, ...]:
        """Return the values of a list, of any kind; () if it is absent."""
        return tuple(self._take(name, [], lambda v: isinstance(v, list), "a list"))

    def series(self, name: str) -> tuple[tuple[int, float], ...]:
        """Return a list of [step, value] pairs."""
        pairs = []
        for pair in self._take(name, [], lambda v: isinstance(v, list), "a list of [step, value]"):
            number = read_number(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None
            if number is None or not _is_integer(pair[0]):
                self.problem(name, f"must hold [step, value] pairs, but holds {_kind(pair)}.")
            else:
                pairs.append((pair[0], number))
        return tuple(pairs)

    def numbers(self, name: str) -> dict[str, float]:
        """Return an object of numbers."""
        inner = Fields(self.mapping(name, {}), where=f"{self.where}.{name}".lstrip("."), problems=self.problems)
        return {key: inner.number(key) for key in inner._data}

    def items(self, name: str, read: Callable[[Fields], T], *, required: bool = True) -> tuple[T, ...]:
        """Return a list of objects, each read by `read`. Problems name the index (`rules[2].name`)."""
        value = self._take(name, None if required else [], lambda v: isinstance(v, list | tuple), "a list")
        found = []
        for index, item in enumerate(value or ()):
            where = ".".join(part for part in (self.where, f"{name}[{index}]") if part)
            found.append(read(Fields(item, where=where, problems=self.problems)))
        return tuple(found)

    def inner(self, name: str) -> Fields:
        """Return the fields of an inner object, which may be absent. Its problems are noted with these."""
        where = ".".join(part for part in (self.where, name) if part)
        return Fields(self.mapping(name, {}), where=where, problems=self.problems)

    def ignore(self, *names: str) -> None:
        """Allow these names without reading them."""
        self._read_names.update(names)

    def reject_unknown(self) -> None:
        """Note a problem, with a did-you-mean, for every name that was not read."""
        for name in self._data:
            if name not in self._read_names:
                self.problem(str(name), "is not a known name.", did_you_mean(str(name), self._read_names))

    def finish(self, *, subject: str) -> None:
        """Raise one `ConfigurationError` with all problems, if any."""
        if self.problems:
            raise ConfigurationError(self.problems, subject=subject)

    def _take(self, name: str, default: Any, good: Callable[[Any], bool], kind: str) -> Any:
        self._read_names.add(name)
        value = self._data.get(name, default)
        if value is not None and good(value):
            return value
        self.problem(name, _wanted(kind, name in self._data, value))
        return default


def parse_json(text: str | bytes, *, subject: str) -> Any:
    """Return the JSON value in `text`.

    Raises:
        ConfigurationError: It is not JSON. Names the place of the fault.
    """
    try:
        return json.loads(text)
    except ValueError as error:  # no JSON, no UTF-8, or a number of thousands of digits
        raise ConfigurationError([Problem(where="text", what=f"is not JSON: {error}.")], subject=subject) from error
    except RecursionError as error:
        raise ConfigurationError([Problem(where="text", what="is nested too deeply.")], subject=subject) from error


def read_number(value: Any) -> float | None:
    """Return the number in a JSON value, non-finite ones written as words included; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    return words.get(value) if isinstance(value, str) else None


def write_number(value: float) -> float | str:
    """Return `value` as JSON can carry it: non-finite numbers become words, because JSON has none for them."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def to_json(value: Mapping[str, Any]) -> str:
    """Return compact JSON in the order of keys. Non-finite numbers are refused, for other readers cannot read them."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wanted(kind: str, present: bool, value: Any) -> str:
    return f"must be {kind}, but is {_kind(value)}." if present else f"is missing; it must be {kind}."


def _kind(value: Any) -> str:
    return json.dumps(value, default=repr)[:60]
