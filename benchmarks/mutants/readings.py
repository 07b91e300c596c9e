"""The readings of the half `report`: each is counted, dated and kept, with the sums that were read.

Rules may be changed between two readings, and a half that is read often is no longer blind. So the sums of that half
are shown by `report --read` only, which adds a line to `readings.jsonl` first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.engine import pages
from benchmarks.engine.documents import write_text
from benchmarks.engine.figures import Share

READINGS = Path(__file__).with_name("readings.jsonl")


@dataclass(frozen=True)
class Reading:
    """The sums of one reading.

    date          day and time, UTC
    rules         digest of the code and the tables that decide on verdicts
    choice        the arguments by which mutants were chosen
    mutants       mutants that count
    runs          their runs, one a seed
    found         runs with a card beyond the twin's
    nameable      runs of mutants with a cause in the list
    first         runs of which the first cause is right
    in_two        runs with a right cause among the first two
    mutants_found mutants that are found on most of their seeds
    """

    date: str
    rules: str
    choice: str
    mutants: int
    runs: int
    found: int
    nameable: int
    first: int
    in_two: int
    mutants_found: int


def read_all(path: Path = READINGS) -> tuple[Reading, ...]:
    """Return the readings so far, the first one first."""
    if not path.exists():
        return ()
    return tuple(Reading(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line)


def add(reading: Reading, path: Path = READINGS) -> bool:
    """Keep a reading. Return False for one that repeats the last: the same rules, choice and sums show nothing new."""
    before = read_all(path)
    if before and _without_date(before[-1]) == _without_date(reading):
        return False
    write_text(path, "".join(f"{json.dumps(asdict(each))}\n" for each in (*before, reading)))
    return True


def table(readings: Sequence[Reading]) -> Iterator[str]:
    """Yield the table of readings, line by line."""
    heads = "reading | date (UTC) | rules | mutants drawn by | mutants that count | found on most seeds"
    heads += " | runs found | named first | in the first two"
    yield from pages.table(heads, (_row(number, each) for number, each in enumerate(readings, 1)))


def _row(number: int, each: Reading) -> tuple[object, ...]:
    shares = (Share(each.found, each.runs), Share(each.first, each.nameable), Share(each.in_two, each.nameable))
    on_most = Share(each.mutants_found, each.mutants)
    return number, each.date, each.rules, f"`{each.choice}`", each.mutants, on_most, *shares


def _without_date(reading: Reading) -> dict[str, object]:
    return {**asdict(reading), "date": ""}
