"""Assembles CHANGELOG.md from the notes in changes/.

.ci/changelog.py                        write the section of what is not released yet
.ci/changelog.py --check                exit 1 and name notes with a wrong name or no text, and a stale CHANGELOG.md
.ci/changelog.py --release VERSION DAY  turn that section into a release's, and remove its notes
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"removal": "Removed", "feature": "Added and changed", "fix": "Fixed"}
NAME = re.compile(rf"(\d+)(?:\.([A-Za-z]+))?\.({'|'.join(KINDS)})\.md")
UNRELEASED = "## Not released yet"
HEAD = """# Change log

Changes that users notice, newest first, assembled by `.ci/changelog.py` from the notes in `changes/`. Versions follow
[the policy](docs/public-api.md#versions).
"""
_HEADING = re.compile(r"^#+ ", re.MULTILINE)


@dataclass(frozen=True)
class Note:
    """One change: the number of its issue, its part (for several notes of one issue), its kind and its text."""

    number: int
    part: str
    kind: str
    text: str


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Return 0 if all is well or was written, 1 for problems, 2 for unknown arguments."""
    file = root / "CHANGELOG.md"
    problems = list(find_problems(root / "changes"))
    if arguments == ["--check"]:
        if not problems and (not file.exists() or file.read_text(encoding="utf-8") != assemble(root)):
            problems.append("CHANGELOG.md is not current. Mend with: python .ci/changelog.py")
        sys.stderr.writelines(f"{problem}\n" for problem in problems)
        return 1 if problems else 0
    releases = len(arguments) == 3 and arguments[0] == "--release"
    if problems or (arguments and not releases):
        sys.stderr.writelines(f"{line}\n" for line in problems or [__doc__])
        return 1 if problems else 2
    text = assemble(root)
    if releases:
        text = text.replace(UNRELEASED, f"## {arguments[1]}, {arguments[2]}", 1)
        for note in (root / "changes").glob("*.md"):
            note.unlink()
    file.write_text(text, encoding="utf-8", newline="\n")
    return 0


def find_problems(folder: Path) -> Iterator[str]:
    """Yield a line for each note that cannot be assembled."""
    for path in sorted(folder.iterdir()):
        if not NAME.fullmatch(path.name):
            forms = "<issue>.<kind>.md or <issue>.<part>.<kind>.md"
            yield f"changes/{path.name}: name it {forms}; kinds: {', '.join(KINDS)}."
        elif not (text := path.read_text(encoding="utf-8").strip()):
            yield f"changes/{path.name}: is empty."
        elif _HEADING.search(text):
            yield f"changes/{path.name}: has a heading of its own; write paragraphs or lists."


def assemble(root: Path) -> str:
    """Return the whole text of CHANGELOG.md: the notes, then the releases that stand in it already."""
    file = root / "CHANGELOG.md"
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    released = [part for part in re.split(r"(?m)^(?=## )", before)[1:] if not part.startswith(UNRELEASED)]
    notes = read_notes(root / "changes")
    parts = [HEAD]
    if notes:
        parts.append(f"{UNRELEASED}\n")
    for kind, heading in KINDS.items():
        texts = [note.text for note in notes if note.kind == kind]
        parts += [f"### {heading}\n", *(f"{text}\n" for text in texts)] if texts else []
    return "\n".join(parts) + "".join(f"\n{release.rstrip()}\n" for release in released)


def read_notes(folder: Path) -> list[Note]:
    """Return the notes, newest issue first, with links as they lead from the root."""
    named = [(NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    notes = [
        Note(int(name[1]), name[2] or "", name[3], path.read_text(encoding="utf-8").strip().replace("](../", "]("))
        for name, path in named
        if name
    ]
    return sorted(notes, key=lambda note: (-note.number, note.part, note.kind))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
