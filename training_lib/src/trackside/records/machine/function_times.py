"""Read and write `functions.json`: the times of Python functions in one profile, the longest first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from trackside.records.untrusted_json import UntrustedJson

FUNCTIONS = "functions.json"
MOST_FUNCTIONS = 200


@dataclass(frozen=True)
class FunctionTime:
    """A function, and its times in seconds.

    Attributes:
        file: Its file; "~" for one that is written in C.
        line: Its first line.
        name: Its name.
        calls: Number of calls.
        self_seconds: Time within it, without the functions that it calls.
        total_seconds: Time from its calls to their ends.
    """

    file: str
    line: int
    name: str
    calls: int
    self_seconds: float
    total_seconds: float


def encode_functions(functions: Iterable[FunctionTime]) -> bytes:
    """Return the content of a file with the longest of these functions.

    Args:
        functions: All that were called.
    """
    longest = sorted(functions, key=lambda one: -one.self_seconds)[:MOST_FUNCTIONS]
    return json.dumps({"version": 1, "functions": [asdict(one) for one in longest]}).encode("ascii")


def decode_functions(data: bytes, *, key: str) -> list[FunctionTime]:
    """Return the functions of a file.

    Args:
        data: The content.
        key: The key, for errors.

    Raises:
        RecordError: It is damaged.
    """
    return [
        FunctionTime(
            file=one.text("file"),
            line=one.count("line"),
            name=one.text("name"),
            calls=one.count("calls"),
            self_seconds=one.number("self_seconds"),
            total_seconds=one.number("total_seconds"),
        )
        for one in UntrustedJson.parse(data, key=key).objects("functions")
    ]
