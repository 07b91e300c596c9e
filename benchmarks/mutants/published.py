"""Published lists of mistakes: how each entry is planted, or why it is not (`published.toml`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import pages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEEPCRIME, TRAINCHECK = "DeepCrime", "TrainCheck"


@dataclass(frozen=True)
class Entry:
    """An entry of a published list.

    operators  those that plant it
    why_not    the reason if there are none, or what they leave out
    """

    source: str
    name: str
    operators: tuple[str, ...] = ()
    why_not: str = ""


def entries() -> Iterator[Entry]:
    """Yield the entries of all lists."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    for each in tomllib.loads(text)["entry"]:
        yield Entry(each["source"], each["name"], tuple(each.get("operators", ())), each.get("why_not", ""))


def table() -> Iterator[str]:
    """Yield the table of all entries, line by line."""
    rows = ((each.source, each.name, ", ".join(each.operators) or "-", each.why_not or "-") for each in entries())
    yield from pages.table("list | entry | planted by | not planted, or not all of it, because", rows)
