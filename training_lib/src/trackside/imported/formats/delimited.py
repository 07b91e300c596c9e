"""CSV and TSV with a line of names: Lightning's `metrics.csv`, Keras' `CSVLogger`, and any other."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from trackside.imported.format import Format
from trackside.imported.formats.json_lines import add_rows, numbers_in
from trackside.imported.log import Log, LogFile, Series

MOST_LINE_BYTES = 1 << 20
MOST_COLUMNS = 2000
_DELIMITERS = b",;\t"
_NUMBER_BYTES = b"0123456789.+-eE naifNAIF"


def _is_ours(file: LogFile) -> bool:
    """Return True for a table: by the ending, or by names in the first line and as many numbers in the second."""
    if file.name.lower().endswith((".csv", ".tsv")):
        return True
    names, _, rest = file.head().partition(b"\n")
    values = rest.partition(b"\n")[0]
    return any(_is_table(names, values, bytes([mark])) for mark in _DELIMITERS)


def _is_table(names: bytes, values: bytes, mark: bytes) -> bool:
    parts = [part.strip().strip(b'"') for part in names.strip().split(mark)]
    are_names = all(part[:1].isalpha() and b":" not in part and b" " not in part for part in parts)
    return len(parts) > 1 and are_names and values.count(mark) == len(parts) - 1 and values[:1] in _NUMBER_BYTES


def _read(name: str, files: Sequence[LogFile], series: Series) -> Iterable[Log]:
    (file,) = files
    _read_table(file, series)
    yield Log(name, file.where, FORMAT.name, series.points(), damage=series.all_damage(), left_out=len(series.left_out))


def _read_table(file: LogFile, series: Series) -> None:
    names, mark = series.known.get(file.name, ([], b","))
    rest, uneven = b"", 0
    for chunk in itertools.chain(series.unread(file), [b""] if series.is_over else []):
        data = rest + chunk
        end = data.rfind(b"\n") + 1 if chunk else len(data)
        rest, data = data[end:], data[:end]
        series.has_read(file, end)
        if len(rest) > MOST_LINE_BYTES:
            series.note(f"a line is longer than {MOST_LINE_BYTES:,} bytes")
            return
        if not names and data.strip():
            first, _, data = data.lstrip(b"\xef\xbb\xbf\r\n ").partition(b"\n")
            mark = max((bytes([one]) for one in _DELIMITERS), key=first.count)
            names = _names(first, mark)
            if not names or any(_is_number(name) for name in names):
                series.note("its first line holds no names of columns")
                return
            series.known[file.name] = names, mark
        if data.strip():
            uneven += _add(series, names, data, mark)
    words = "other columns than the first, left out"
    series.count(uneven, f"line has {words}", f"lines have {words}")


def _names(line: bytes, mark: bytes) -> list[str]:
    found = next(csv.reader([line.decode("utf-8", "replace").strip("\r\n")], delimiter=mark.decode()), [])
    return [name.strip().lstrip("# ") or f"column {place}" for place, name in enumerate(found, 1)][:MOST_COLUMNS]


def _add(series: Series, names: Sequence[str], data: bytes, mark: bytes) -> int:
    """Add whole lines. Return the number of lines that are left out."""
    if _add_numbers(series, names, data, mark):
        return 0
    uneven, rows = 0, []
    for values in csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline=""), delimiter=mark.decode()):
        if not values:
            continue
        if values == list(names):  # a writer that was started again
            continue
        if len(values) != len(names):
            uneven += 1
            continue
        rows.append({name: _value(text) for name, text in zip(names, values, strict=True) if text.strip()})
    add_rows(series, rows)
    return uneven


def _add_numbers(series: Series, names: Sequence[str], data: bytes, mark: bytes) -> bool:
    """Add lines that hold a number in each column. Return False if any does not."""
    text = data.replace(b"\r\n", b"\n")
    text = text if text.endswith(b"\n") else text + b"\n"
    count = text.count(b"\n")
    if text.translate(None, _NUMBER_BYTES) != (mark * (len(names) - 1) + b"\n") * count:
        return False
    if mark + mark in text or mark + b"\n" in text or b"\n" + mark in text or text.startswith(mark):
        return False  # an empty cell
    values = numbers_in(text.replace(mark, b" "))
    if values is None or len(values) != count * len(names):
        return False
    series.add_rows(names, values.reshape(count, len(names)))
    return True


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _is_number(text: str) -> bool:
    return not isinstance(_value(text), str) and not np.isnan(float(text))


FORMAT = Format("CSV", 70, _is_ours, _read, is_general=True)
