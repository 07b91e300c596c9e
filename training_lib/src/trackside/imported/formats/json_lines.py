"""JSON: a row on each line, a list of rows, or a list of values for each name.

Rows with the same keys in the same order, and only numbers in them, are split without being parsed one by one.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.imported.format import Format
from trackside.imported.log import Log, LogFile, Series, is_counter
from trackside.imported.names import is_evaluation, is_training

MOST_LINE_BYTES = 1 << 20
MOST_DOCUMENT_BYTES = 256 << 20  # of a file that is one JSON document
_MOST_DEEP = 4
_FEW_ROWS = 16  # that are added one by one
_LARGEST = 1 << 1023  # of a whole number that a float can hold
_MOST_KEYS = 28  # of rows that are split: each key becomes one byte
_NAMED = ("tag", "metric", "name", "key")
_SPLITS = ("split", "mode", "phase", "stage", "type", "set", "subset", "kind", "event")
_PLAIN = frozenset({"value", *_NAMED, *_SPLITS})  # keys that say what other values of the row are
_NUMBER = rb"[-+0-9.eE]+|NaN|-?Infinity"
_NUMBER_BYTES = b"0123456789.+-eE NaInfity"
_Part = tuple[NDArray[np.intp], NDArray[np.float64]]  # places among rows, and the numbers in them
_PAIR = re.compile(rb'"((?:[^"\\\x00-\x1f]){1,200})"\s*:\s*(' + _NUMBER + rb")")


def _is_ours(file: LogFile) -> bool:
    name, head = file.name.lower(), file.head().lstrip()
    if name.endswith((".jsonl", ".ndjson", ".jsonlines")):
        return True
    if name.endswith(".json"):
        return head[:1] in {b"{", b"["}
    return head[:1] == b"{" and re.match(rb'\{\s*"', head) is not None


def _read(name: str, files: Sequence[LogFile], series: Series) -> Iterable[Log]:
    (file,) = files
    document = None if series.ends else _document_of(file)
    if document is None:
        _read_lines(file, series)
    else:
        series = document
    yield Log(name, file.where, FORMAT.name, series.points(), damage=series.all_damage(), left_out=len(series.left_out))


def _read_lines(file: LogFile, series: Series) -> None:
    """Read rows of JSON, one a line. A last line without an end is read once no more comes, if it is whole."""
    rest, broken = b"", 0
    for chunk in series.unread(file):
        data = rest + chunk
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        broken += _add_lines(data[:end], series)
        series.has_read(file, end)
        if len(rest) > MOST_LINE_BYTES:
            series.note(f"a line is longer than {MOST_LINE_BYTES:,} bytes")
            series.has_read(file, len(rest))
            rest, broken = b"", broken + 1
    if rest.strip() and series.is_over:
        broken += _add_lines(rest, series)
        series.has_read(file, len(rest))
    series.count(broken, "line is no JSON object", "lines are no JSON object")


def _add_lines(data: bytes, series: Series) -> int:
    """Add whole lines. Return the number of lines that are no row."""
    if not data.strip():
        return 0
    if _split(data, series):
        return 0
    lines = [line for line in data.splitlines() if line.strip()]
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        rows = [_row(line) for line in lines]
    found = [row for row in rows if isinstance(row, dict)]
    add_rows(series, found)
    return len(rows) - len(found)


def add_rows(series: Series, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows, those with the same keys together; each series gets its numbers in the order of the rows."""
    by_keys: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        by_keys.setdefault(tuple(row), []).append(place)
    found: dict[str, list[_Part]] = {}
    for keys, places in by_keys.items():
        own = [rows[place] for place in places]
        columns = _columns_alike(keys, own) or _columns_of_each(own)
        for key, (among, values) in columns.items():
            found.setdefault(key, []).append((np.asarray(places)[among], values))
    for key, parts in found.items():
        numbers = np.concatenate([own for own, _ in parts])
        order = np.argsort(numbers, kind="stable")
        series.extend(key, series.rows + 1 + numbers[order], np.concatenate([own for _, own in parts])[order])
    series.rows += len(rows)


def _columns_alike(keys: tuple[str, ...], rows: Sequence[Mapping[str, Any]]) -> dict[str, _Part] | None:
    """Return the numbers of rows with the same keys, by key. None if a value needs a closer look."""
    if len(rows) < _FEW_ROWS or not _PLAIN.isdisjoint(keys):
        return None
    columns, every = {}, np.arange(len(rows))
    for key in keys:
        kinds = {type(row[key]) for row in rows}
        if kinds <= {int, float}:
            try:
                columns[key] = every, np.array([row[key] for row in rows], np.float64)
            except OverflowError:
                return None
        elif not kinds <= {str, bool, type(None), list} or (str in kinds and _has_number(rows, key)):
            return None
    return columns


def _columns_of_each(rows: Sequence[Mapping[str, Any]]) -> dict[str, _Part]:
    """Return the numbers of any rows, looked at one by one."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for place, row in enumerate(rows):
        for key, value in numbers_of(row):
            places, values = found.setdefault(key, ([], []))
            places.append(place)
            values.append(value)
    return {key: (np.asarray(places), np.asarray(values)) for key, (places, values) in found.items()}


def _has_number(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    """Return True if a text among the values may be a number: `"NaN"`."""
    return any(isinstance(row[key], str) and _number_in(row[key]) is not None for row in rows)


def _row(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _split(data: bytes, series: Series) -> bool:
    """Add lines of one form by cutting their keys out. Return False if they are not all of the form of the first.

    Each text between two numbers becomes one byte. Only where these bytes, without the numbers, repeat line by line are
    the numbers those of the keys.
    """
    names, pieces = _form_of(data[: data.find(b"\n") + 1 or len(data)].strip())
    marks = bytes(range(1, len(pieces) + 1)).replace(b"\n", b"\x1f")
    if not names or data.translate(None, marks) != data:
        return False
    text = data.replace(b"\r\n", b"\n")
    text = text if text.endswith(b"\n") else text + b"\n"
    for mark, piece in zip(marks, pieces, strict=True):
        text = text.replace(piece, bytes([mark, 32]))
    count = text.count(b"\n")
    if text.translate(None, _NUMBER_BYTES) != (marks + b"\n") * count:
        return False
    values = numbers_in(text.translate(None, marks))
    if values is None or len(values) != count * len(names):
        return False
    series.add_rows(names, values.reshape(count, len(names)))
    return True


def numbers_in(text: bytes) -> NDArray[np.float64] | None:
    """Return the numbers of a text, with space between them; None if it has anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text.decode("ascii"), sep=" ")
        except (ValueError, DeprecationWarning):
            return None


def _form_of(line: bytes) -> tuple[list[str], list[bytes]]:
    """Return the names of a row and the texts around its numbers; nothing of a row with other values."""
    names, pieces, at = [], [], 0
    for match in _PAIR.finditer(line):
        names.append(match[1].decode("utf-8", "replace"))
        pieces.append(line[at : match.start(2)])
        at = match.end()
    pieces.append(line[at:])
    is_plain = line.startswith(b"{") and pieces[-1].strip() == b"}" and line.count(b"{") == 1 and b"[" not in line
    is_clear = len(set(pieces)) == len(pieces) == len(set(names)) + 1 and len(names) <= _MOST_KEYS
    is_named = not any(name in {"value", *_SPLITS} for name in names)
    return (names, pieces) if is_plain and is_clear and is_named else ([], [])


def _document_of(file: LogFile) -> Series | None:
    """Return the series of a file that is one JSON document; None if it has rows on lines."""
    series = Series()
    head = file.head().lstrip()
    if not file.name.lower().endswith(".json") or (_row(head.partition(b"\n")[0]) is not None and b"\n{" in head):
        return None
    if file.size > MOST_DOCUMENT_BYTES:
        series.note(f"one JSON document of {file.size:,} bytes; at most {MOST_DOCUMENT_BYTES >> 20} MiB are read")
        return series
    try:
        found = json.loads(b"".join(file.chunks()))
    except (ValueError, RecursionError) as error:
        if b"\n" in head.strip():
            return None
        series.note(f"it is no whole JSON: {error}")
        return series
    add_rows(series, list(rows_of(found)))
    return series


def rows_of(found: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a document: a list of rows, lists by name, or either in an object (`history`)."""
    if isinstance(found, list):
        yield from (row for row in found if isinstance(row, dict))
    elif isinstance(found, dict):
        lists = {name: own for name, own in found.items() if isinstance(own, list) and own}
        numbers = {name: own for name, own in lists.items() if all(_is_number(one) for one in own[:3])}
        if numbers:
            for place in range(max(map(len, numbers.values()))):
                yield {name: own[place] for name, own in numbers.items() if place < len(own)}
        elif lists:
            yield from rows_of(max(lists.values(), key=len))
        else:
            inner = [own for own in found.values() if isinstance(own, dict) and rows_of(own)]
            yield from (row for own in inner[:1] for row in rows_of(own))


def numbers_of(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of one row; names of objects within it are joined by `/`."""
    named = next((row[one] for one in _NAMED if isinstance(row.get(one), str)), None)
    if named is not None and _is_number(row.get("value")):
        own = {name: value for name, value in row.items() if name not in {"value", *_NAMED}}
        row = {**own, named: row["value"]}
    split = next((row[one] for one in _SPLITS if isinstance(row.get(one), str)), "")
    prefix = f"{split}/" if split and (is_evaluation(split) or is_training(split)) else ""
    yield from _flat(row, prefix, deep=0)


def _flat(row: Mapping[str, Any], prefix: str, *, deep: int) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        own = name if is_counter(name) else f"{prefix}{name}"
        if _is_number(value):
            yield own, float(value)
        elif isinstance(value, str):
            if (number := _number_in(value)) is not None:
                yield own, number
        elif isinstance(value, dict) and deep < _MOST_DEEP:
            yield from _flat(value, f"{prefix}{name}/", deep=deep + 1)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and type(value) is not bool and abs(value) < _LARGEST)


def _number_in(text: str) -> float | None:
    """Return the number in a text: `"NaN"`, as some writers put what JSON has no word for, and `"0.5"`."""
    try:
        return float(text) if 0 < len(text) < 32 else None
    except ValueError:
        return None


FORMAT = Format("JSON lines", 60, _is_ours, _read, is_general=True)
