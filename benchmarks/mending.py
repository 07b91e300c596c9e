"""Mend faulty scripts by the JSON verdict alone, and count the runs that are well after.

    python -m benchmarks.mending [--programs classifier regression] [--only WORD ...] [--stored]
        [--write docs/agents.md]

The scripts are the right programs of `benchmarks.rehearsal` with one mistake each. Each is run by `trackside run`, and
a fixed recipe applies the `edits` of the first problem that has any: it knows neither the mistake nor the right
program. It runs again, at most three times, until `trackside compare` gives "mended" against the first run.
A place counts as right within two lines of a line that the mistake changed. Results lie in build/mending: with
`--stored`, scripts that have one do not run again.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.pages import replaced
from benchmarks.rehearsal.mistakes import MISTAKES, PROGRAMS, Mistake, right
from trackside.environment import inherited

ROOT = Path("build/mending")
BEGIN, END = "<!-- mended -->", "<!-- end -->"
MOST_CHANGES = 3
NEAR = 2  # lines
TRACKSIDE = (sys.executable, "-m", "trackside")


@dataclass(frozen=True)
class Mended:
    """The result for one script.

    is_found  True if a problem was found
    is_place  True if its place is right
    changes   changes until it was well; None if it never was
    """

    mistake: str
    program: str
    is_found: bool = False
    is_place: bool = False
    changes: int | None = None


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--stored", action="store_true", help="run no script again that has a result")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    chosen = [each for each in MISTAKES if any(word in each.name for word in options.only)]
    results = []
    for program in options.programs:
        for mistake in chosen:
            results.append((options.stored and stored(mistake, program)) or mended(mistake, program))
            _file(results[-1].program, results[-1].mistake).write_text(
                json.dumps(asdict(results[-1])), encoding="utf-8"
            )
            print(results[-1], flush=True)
    print(in_a_sentence(results))
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        page = replaced(page, in_a_sentence(results), begin=BEGIN, end=END)
        options.write.write_text(page, encoding="utf-8")


def in_a_sentence(results: list[Mended]) -> str:
    found = [each for each in results if each.is_found]
    places, well = sum(each.is_place for each in found), sum(each.changes is not None for each in found)
    return textwrap.fill(
        f"Of {len(results)} faulty scripts ({', '.join(dict.fromkeys(each.program for each in results))}), "
        f"{len(found)} had a problem; its place was right in {places}, and a fixed recipe that reads the JSON alone "
        f"mended {well}.",
        120,
    )


def stored(mistake: Mistake, program: str) -> Mended | None:
    """Return the result of an earlier run; None without one."""
    file = _file(program, mistake.name)
    return Mended(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def _file(program: str, mistake: str) -> Path:
    return ROOT / program / mistake / "result.json"


def mended(mistake: Mistake, program: str) -> Mended:
    """Run a script, and mend it by its verdicts."""
    folder, text = ROOT / program / mistake.name, mistake.planted(program)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    problems = problems_of(folder, "before", text)
    if not problems:
        return Mended(mistake.name, program)
    place = problems[0]["repair"]["place"]
    is_place = place is not None and any(abs(place["line"] - line) <= NEAR for line in changed(right(program), text))
    for change in range(1, MOST_CHANGES + 1):
        edited = by_recipe(text, problems)
        if edited is None or edited == text:
            break
        text = edited
        name = f"after-{change}"
        problems = problems_of(folder, name, text)
        if call(folder, "compare", "before", name, "--fail-on", "not-mended").returncode == 0:
            return Mended(mistake.name, program, True, is_place, change)
        if not problems:
            break
    return Mended(mistake.name, program, True, is_place)


def problems_of(folder: Path, name: str, text: str) -> list[Mapping[str, Any]]:
    """Return the standing problems of a run of the script, as JSON has them."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    call(folder, "run", "-q", "--out", f".trackside/runs/{name}", "--", sys.executable, "train.py")
    waited = call(folder, "wait", name, "--until", "end", "--json")
    found: list[Mapping[str, Any]] = json.loads(waited.stdout)["problems"] if waited.stdout else []
    return found


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**inherited(), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*TRACKSIDE, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def changed(before: str, after: str) -> set[int]:
    """Return the lines of a text that differ from another one; of lines left out the neighbours."""
    blocks = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    found: set[int] = set()
    for kind, _, _, first, last in blocks:
        if kind != "equal":
            found |= set(range(first + 1, last + 1)) or {first, first + 1}
    return found


def by_recipe(text: str, problems: list[Mapping[str, Any]]) -> str | None:
    """Return the text with the edits of the first problem that has any; None without any."""
    edits = next((problem["repair"]["edits"] for problem in problems if problem["repair"]["edits"]), ())
    lines = text.splitlines()
    for edit in sorted(edits, key=lambda edit: -int(edit["line"])):
        at = edit["line"] - 1
        if lines[at] != edit["old"]:
            return None
        lines[at : at + 1] = edit["new"].splitlines()
    return "\n".join([*lines, ""]) if edits else None


if __name__ == "__main__":
    main(sys.argv[1:])
