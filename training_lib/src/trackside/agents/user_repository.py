"""Files for coding agents in a repository of the user: the skill, and a section of `AGENTS.md`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem

SKILL_FILE = Path(__file__).parent / "skill" / "SKILL.md"
AGENTS = "AGENTS.md"
SKILLS, SKILLS_OF_CLAUDE = ".agents/skills", ".claude/skills"
_DIGEST = 16
_SECTION = re.compile(
    r"<!-- trackside init (?P<digest>[0-9a-f]{16}) -->\n(?P<body>.*?)\n<!-- trackside end -->", re.DOTALL
)
_BEGIN = "<!-- trackside init "
_MARK = re.compile(r"\n<!-- trackside init (?P<digest>[0-9a-f]{16}) -->\n\Z")


class Outcome(str, Enum):
    """The outcome for one file."""

    WRITTEN = "written"
    UPDATED = "updated"
    CURRENT = "current"
    LEFT = "left as it is"


@dataclass(frozen=True)
class Written:
    """The outcome for one file, and the reason if it was left as it is."""

    path: str
    outcome: Outcome
    reason: str = ""


def write_for_agents(folder: Path, *, skills: str = "") -> tuple[Written, ...]:
    """Write the skill and the section of `AGENTS.md` into a repository. A second call changes nothing.

    A skill or section that someone has changed by hand stays. So does all other text of `AGENTS.md`.

    Args:
        folder: The top of the repository.
        skills: Folder of skills below it; "" for `.agents/skills`, and `.claude/skills` where `.claude` exists.

    Raises:
        ConfigurationError: A file cannot be read or written.
    """
    places = [skills] if skills else [SKILLS, *([SKILLS_OF_CLAUDE] if (folder / ".claude").is_dir() else [])]
    files = [f"{place.rstrip('/')}/trackside/SKILL.md" for place in places]
    try:
        return (*(_write_skill(folder, file) for file in files), _write_section(folder, files[0]))
    except (OSError, UnicodeDecodeError) as error:
        name = getattr(error, "filename", None) or AGENTS
        what = f"cannot be read or written: {getattr(error, 'strerror', None) or 'it is not UTF-8'}."
        raise ConfigurationError([Problem(str(name), what)], subject="The repository") from error


def section(skill: str) -> str:
    """Return the section of `AGENTS.md`, without its marks.

    Args:
        skill: Path of the skill below the top of the repository.
    """
    return "\n".join(
        [
            "## Trainings",
            "",
            f"Trainings of this repository are watched by Trackside. Read `{skill}` before you start one.",
            "",
            "- Before a long training: `trackside check --json -- python train.py`",
            "- Start: `trackside run -q --out .trackside/runs/NAME -- python train.py &`",
            "- Wait: `trackside wait NAME --until issue --timeout 600 --json`",
            "- Prove a change: `trackside compare NAME OTHER --json --fail-on not-mended`",
        ]
    )


def _write_skill(folder: Path, file: str) -> Written:
    path, text = folder / file, SKILL_FILE.read_text(encoding="utf-8")
    wanted = f"{text}\n<!-- trackside init {_digest(text)} -->\n"
    if not path.exists():
        _write(path, wanted)
        return Written(file, Outcome.WRITTEN)
    found = path.read_text(encoding="utf-8")
    if found == wanted:
        return Written(file, Outcome.CURRENT)
    mark = _MARK.search(found)
    if mark is None or mark["digest"] != _digest(found[: mark.start()]):
        return Written(file, Outcome.LEFT, "it was changed by hand; remove it to get the new one")
    _write(path, wanted)
    return Written(file, Outcome.UPDATED)


def _write_section(folder: Path, skill: str) -> Written:
    path, body = folder / AGENTS, section(skill)
    wanted = f"{_BEGIN}{_digest(body)} -->\n{body}\n<!-- trackside end -->"
    if not path.exists():
        _write(path, f"{wanted}\n")
        return Written(AGENTS, Outcome.WRITTEN)
    with path.open(encoding="utf-8", newline="") as file:  # line ends of others stay
        text = file.read()
    newline = "\r\n" if "\r\n" in text else "\n"
    found = _SECTION.search(text.replace("\r\n", "\n"))
    if found is None and _BEGIN in text:
        return Written(AGENTS, Outcome.LEFT, "the marks of its section were changed by hand; remove them first")
    if found is None:
        gap = "" if not text else newline if text.endswith("\n") else 2 * newline
        _write(path, text + gap + _with(newline, f"{wanted}\n"))
        return Written(AGENTS, Outcome.UPDATED)
    if found[0] == wanted:
        return Written(AGENTS, Outcome.CURRENT)
    if found["digest"] != _digest(found["body"]):
        return Written(AGENTS, Outcome.LEFT, "its section was changed by hand; remove it to get the new one")
    _write(path, text.replace(_with(newline, found[0]), _with(newline, wanted)))
    return Written(AGENTS, Outcome.UPDATED)


def _with(newline: str, text: str) -> str:
    return text.replace("\n", newline)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:_DIGEST]


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all, with the line ends as they are; of a link its target."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(text.encode("utf-8"))
    if path.exists():
        partial.chmod(path.stat().st_mode)
    partial.replace(path)
