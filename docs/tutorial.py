"""Runs what a page of the docs shows, and writes what it printed into the page.

python -m docs.tutorial            writes docs/tutorial.md again
python -m docs.tutorial --check    exits with 1 if a line of it reads otherwise now; numbers may differ

In the page, a block of Python after `<!-- file: NAME -->` is written to a file, `<!-- replace: NAME: "A" by "B" -->`
changes it, and in a block after `<!-- runs -->` each line that begins with `$` is run,
and the lines below it are its output.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trackside.environment import inherited

PAGE = Path(__file__).with_name("tutorial.md")
_BLOCK = re.compile(
    r"<!-- file: (?P<file>[\w.]+) -->\n```python\n(?P<code>.*?)```\n"
    r'|<!-- replace: (?P<changed>[\w.]+): (?P<before>"(?:[^"\\]|\\.)*") by (?P<after>"(?:[^"\\]|\\.)*") -->\n'
    r"|<!-- runs -->\n```console\n(?P<session>.*?)```\n",
    re.DOTALL,
)
_TERMINAL = {"COLUMNS": "92", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
_NUMBER = re.compile(r"-?\d[\d.,]*(e[+-]?\d+)?")
_RUN_NAME = re.compile(r"\d{8}-\d{6}-train-[0-9a-f]{4}")
_PROGRESS = re.compile(r".*\r(?!\n)")


def written_again(page: str, folder: Path) -> str:
    """Return the page with the output that its commands have now.

    Args:
        page: Its text.
        folder: An empty folder, in which they run.
    """

    def block(found: re.Match[str]) -> str:
        if found["file"]:
            (folder / found["file"]).write_text(found["code"], encoding="utf-8")
        elif found["changed"]:
            path = folder / found["changed"]
            before, after = json.loads(found["before"]), json.loads(found["after"])
            text = path.read_text(encoding="utf-8")
            if before not in text:
                raise ValueError(f"{path.name} has no {before!r}")
            path.write_text(text.replace(before, after, 1), encoding="utf-8")
        else:
            return f"<!-- runs -->\n```console\n{''.join(_session(found['session'], folder))}```\n"
        return found[0]

    return _BLOCK.sub(block, page)


def _session(text: str, folder: Path) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n{_output(line[2:], folder)}"


def _output(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{inherited().get('PATH', '')}"
    environment = {**inherited(), **_TERMINAL, "PATH": path}
    done = subprocess.run(
        ["sh", "-c", f"{command} 2>&1"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    text = done.stdout.replace(f"{folder}/", "")
    lines = (_PROGRESS.sub("", line).rstrip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines).strip("\n") + "\n"


def first_file(page: str) -> str:
    """Return the content of the first file of a page."""
    found = next(match for match in _BLOCK.finditer(page) if match["file"])
    return found["code"]


def shape(page: str) -> list[str]:
    """Return the lines of a page without what differs from run to run.

    Numbers do, and so does what `trackside run` has shown by the time that a training of a second ends: of that the
    last line counts.
    """
    found: list[str] = []
    runs_since = -1
    for line in page.splitlines():
        if runs_since >= 0 and line.startswith(("$ ", "```")):
            del found[runs_since:-1]
            runs_since = -1
        if line.strip():
            found.append(re.sub(r"[ ─]+", " ", _NUMBER.sub("#", _RUN_NAME.sub("RUN", line))).strip())
        if line.startswith("$ trackside run "):
            runs_since = len(found)
    return found


def main() -> int:
    """Write the page, or compare it. Return 1 if it is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        now = written_again(page, Path(folder))
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(now, encoding="utf-8")
        return 0
    differences = list(difflib.unified_diff(shape(page), shape(now), "the page", "now", lineterm="", n=0))
    sys.stdout.write("".join(f"{line}\n" for line in differences))
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
