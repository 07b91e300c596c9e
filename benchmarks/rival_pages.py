"""What a browser must load for the pages of other tools, beside ours: the scripts and styles in their wheels.

    python -m benchmarks.rival_pages [--write docs/dashboard.md]

Downloads the wheels with pip, and opens them: nothing of them runs. Needs the network.
"""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from trackside.views.dashboard.app import script, style

START, END = "<!-- read by `python -m benchmarks.rival_pages` -->", "<!-- /read -->"
WORTH_NAMING = 1_000_000  # bytes of one file


@dataclass(frozen=True)
class Rival:
    """A tool with pages. `note` is what its wheel alone does not show."""

    name: str
    requirement: str
    note: str = ""


RIVALS = (
    Rival("TrainScope", "trainscope==1.8.0"),
    Rival("TensorBoard", "tensorboard==2.21.0"),
    Rival("TraceML", "traceml-ai==0.5.0", "the live page comes from NiceGUI, the next row"),
    Rival("NiceGUI, all its parts", "nicegui==3.18.0", "a page loads some of them, over a connection that it holds"),
)


def main(words: Sequence[str] | None = None) -> int:
    """Download, and write the table or print it."""
    options = parser(__doc__)
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args(words)
    put([*table()], arguments.write, begin=START, end=END)
    return 0


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    own = {"script.js": script().encode(), "style.css": style().encode()}
    yield "| pages of | scripts and styles | compressed | the largest file | |"
    yield "|---|---|---|---|---|"
    yield _row("**Trackside**", own, "every page of the dashboard; the report in a file loads nothing")
    with tempfile.TemporaryDirectory() as place:
        for one in RIVALS:
            yield _row(
                f"{one.name} ({one.requirement.replace('==', ' ')})", web_files(wheel(one, Path(place))), one.note
            )
    yield ""
    yield f"Read from the wheels on {time.strftime('%-d %B %Y')}."


def wheel(one: Rival, folder: Path) -> Path:
    """Download a wheel, and return its place."""
    target = folder / one.requirement.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(target), one.requirement]
    subprocess.run(command, check=True, capture_output=True)
    return next(target.glob("*.whl"))


def web_files(path: Path) -> dict[str, bytes]:
    """Return the scripts and styles in a wheel, and in archives in it."""
    with zipfile.ZipFile(path) as archive:
        return dict(_web_files(archive))


def _web_files(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    for name in archive.namelist():
        if name.endswith((".js", ".mjs", ".css")):
            yield name, archive.read(name)
        elif name.endswith("webfiles.zip"):
            with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                yield from _web_files(inner)


def _row(name: str, files: dict[str, bytes], note: str) -> str:
    if not files:
        return f"| {name} | none in its wheel | | | {note} |"
    sizes = {file: len(content) for file, content in files.items()}
    largest = max(sizes, key=lambda file: sizes[file])
    packed = sum(len(gzip.compress(content, mtime=0)) for content in files.values())
    word = f"`{largest.rpartition('/')[2]}`, {_size(sizes[largest])}"
    return f"| {name} | {_size(sum(sizes.values()))} | {_size(packed)} | {word} | {note} |"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= WORTH_NAMING else f"{count / 1e3:.1f} kB"


if __name__ == "__main__":
    sys.exit(main())
