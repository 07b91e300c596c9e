"""Runs command lines of `trackside` in one process, some packages hidden, and prints exit codes and messages as JSON.

    python each_command.py HIDDEN < COMMANDS

HIDDEN are top-level modules with commas between them, COMMANDS a JSON list of lists of arguments. The script imports
nothing of the tests, so that it also runs in an environment with nothing but Trackside.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import Any


class Without:
    """A finder of modules that finds none of the hidden packages, as if they were not installed."""

    def __init__(self, finder: Any, names: frozenset[str]) -> None:
        self._finder, self._names = finder, names

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in self._names else self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


class _Text(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_RDWR)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return] # it is a BytesIO


def carried_out(arguments: list[str]) -> dict[str, object]:
    """Return the exit code and both streams of one command line."""
    from trackside.__main__ import main

    sys.argv = ["trackside", *arguments]
    out, err = _Text(), _Text()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return {"arguments": arguments, "code": code, "stdout": out.text, "stderr": err.text}


if __name__ == "__main__":
    hidden, wanted = frozenset(filter(None, sys.argv[1].split(","))), json.load(sys.stdin)
    sys.meta_path[:] = [Without(finder, hidden) for finder in sys.meta_path]
    json.dump([carried_out(arguments) for arguments in wanted], sys.stdout)
