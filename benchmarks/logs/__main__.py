"""Judge public logs that a person read first, beside other tools that judge logs.

    python -m benchmarks.logs FOLDER [--tools ENV/bin] [--write docs/judge.md]

`logs.toml` lists the logs with their repositories, commits and what a person said of each before any tool was asked.
FOLDER holds each file as `OWNER+NAME/PATH`: they belong to others and are not kept here. ENV is an environment with
losslint, trainspotter, runmedic and rldoctor, asked with their defaults. A tool agrees where it has a finding of at
least the severity of a warning on a log that is not sound, and none on a sound one; what it names is listed with
`--verbose`. Logs of which the person was not sure count for nobody.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from benchmarks.engine.options import parser
from benchmarks.engine.pages import replaced
from trackside.choosing.rule_choice import choose_rules
from trackside.contracts.errors import TracksideError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.environment import inherited
from trackside.imported.finding import LeftOut, find_logs
from trackside.imported.judged_log import judge_log

LIST = Path(__file__).with_name("logs.toml")
BEGIN, END = "<!-- public logs -->", "<!-- end of public logs -->"
SOUND, UNSURE = "sound", "unsure"
LONGEST_SECONDS = 300
GRAVE = frozenset({"warning", "warn", "error", "critical", "crit", "high", "medium", "fatal"})
_NAMES = ("rule", "rule_id", "code", "detector", "check", "kind", "id", "name", "title")


@dataclass(frozen=True)
class PublicLog:
    """A log. `said` is the word of the person who read it."""

    repository: str
    commit: str
    path: str
    said: str
    because: str = ""

    def file(self, folder: Path) -> Path:
        """Return its place below a folder."""
        return folder / self.repository.replace("/", "+", 1) / self.path


def public_logs() -> list[PublicLog]:
    """Return the listed logs."""
    return [PublicLog(**entry) for entry in tomli.loads(LIST.read_text(encoding="utf-8"))["log"]]


def main() -> None:
    """Ask each tool of each log, and print or write the table."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--tools", type=Path, help="folder with the commands of other tools")
    options.add_argument("--write", type=Path, metavar="PAGE", help="write the table into this page")
    options.add_argument("--verbose", action="store_true", help="print what each tool names of each log")
    arguments = options.parse_args()
    asked = [log for log in public_logs() if log.file(arguments.folder).is_file()]
    tools = {"Trackside": trackside, **(_others(arguments.tools) if arguments.tools else {})}
    found: dict[str, list[frozenset[str] | None]] = {name: [] for name in tools}
    for log in asked:
        for name, ask in tools.items():
            found[name].append(ask(log.file(arguments.folder)))
            if arguments.verbose:
                named = found[name][-1]
                shown = "no answer" if named is None else ", ".join(sorted(named)) or "-"
                print(f"{log.said:9} {name:12} {log.repository} {log.path[-50:]}: {shown}", flush=True)
    table = "\n".join(_table(asked, found, listed=len(public_logs())))
    print(table)
    if arguments.write is not None:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(replaced(page, table, begin=BEGIN, end=END), encoding="utf-8")


def trackside(file: Path) -> frozenset[str] | None:
    """Return the rules with an issue of at least a warning that stands at the end; None without an answer."""
    chosen = choose_rules([], catalogue=built_in_catalogue())
    try:
        judged = [judge_log(found, chosen, clock=time.time) for found in find_logs(str(file), {}, LeftOut())]
    except TracksideError:
        return None
    groups = [group for one in judged for group in one.recorded.groups if group.standing]
    return frozenset(group.lead.rule_id for group in groups if group.severity.value in GRAVE)


def _others(folder: Path) -> Mapping[str, Callable[[Path], frozenset[str] | None]]:
    commands = {
        "losslint": ("losslint", "check", "{}", "--format", "json"),
        "trainspotter": ("trainspotter", "analyze", "{}", "--output", "json"),
        "runmedic": ("runmedic", "diagnose", "{}", "--json"),
        "rl-doctor": ("rl-doctor", "diagnose", "{}", "--format", "json"),
    }

    def asks(words: tuple[str, ...]) -> Callable[[Path], frozenset[str] | None]:
        def ask(file: Path) -> frozenset[str] | None:
            answer = _asked([str(folder / words[0]), *(str(file) if word == "{}" else word for word in words[1:])])
            return None if answer is None else frozenset(_grave(answer))

        return ask

    return {name: asks(words) for name, words in commands.items()}


def _asked(command: list[str]) -> Any:
    """Return the JSON that a command prints; None without any."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS, env=dict(inherited())
        )
        return json.loads(done.stdout[min(done.stdout.find(mark) % (1 << 30) for mark in "{[") :])
    except (ValueError, subprocess.TimeoutExpired):
        return None


def _grave(answer: Any) -> Iterator[str]:
    """Yield the names of findings in any document that are at least warnings."""
    if isinstance(answer, list):
        for one in answer:
            yield from _grave(one)
    elif isinstance(answer, dict):
        level = answer.get("severity", answer.get("level"))
        if isinstance(level, str) and level.lower() in GRAVE:
            yield next((str(answer[name]) for name in _NAMES if isinstance(answer.get(name), str)), "a finding")
        for inner in answer.values():
            yield from _grave(inner)


def _table(asked: list[PublicLog], found: Mapping[str, list[frozenset[str] | None]], *, listed: int) -> Iterator[str]:
    said = Counter(log.said for log in asked)
    ill = len(asked) - said[SOUND] - said[UNSURE]
    yield (
        f"{len(asked)} of {listed} listed logs, of {len({log.repository for log in asked})} repositories. A person "
        f'said "sound" of {said[SOUND]}, named a fault in {ill}, and was not sure of {said[UNSURE]}: these count for '
        "nobody."
    )
    yield ""
    yield "| tool | faults found | sound logs with an alarm | logs without an answer |"
    yield "|---|---:|---:|---:|"
    for name, answers in found.items():
        pairs = [pair for pair in zip(asked, answers, strict=True) if pair[0].said != UNSURE]
        hits = sum(bool(named) for log, named in pairs if log.said != SOUND)
        alarms = sum(bool(named) for log, named in pairs if log.said == SOUND)
        silent = sum(named is None for _, named in pairs)
        yield f"| {name} | {hits} of {ill} | {alarms} of {said[SOUND]} | {silent} |"


if __name__ == "__main__":
    main()
