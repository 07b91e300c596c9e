"""Lines of the training's own files, for a finding that names one, as long as the files are on this machine.

And the answers of a language model, for a finding about them, where the user has allowed to keep some.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.cached_property import cached_property
from trackside.contracts.errors import TracksideError
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run.answers import KeptAnswer, KeptAnswers
from trackside.contracts.run_layout import ANSWERS, MODEL_FACTS_PREFIX, TENSORS, worker_name
from trackside.contracts.verdict import Verdict
from trackside.records.answers_file import read_answers
from trackside.records.model_facts import facts_workers, read_facts
from trackside.storage.open_store import open_store

MOST_BYTES = 4 << 20
MOST_CHARACTERS = 200
MOST_ANSWERS = 3
_LEAST, _HIGHEST, _LONGEST = "least", "highest", "longest"
_WORST = {  # of which answers a rule speaks
    "reward-without-progress": _LEAST,
    "gamed-reward": _HIGHEST,
    "entropy-collapse": _LEAST,
    "off-policy-rollouts": _LEAST,
    "unended-answers": _LONGEST,
}
_CELL = re.compile(r"In \[([0-9]{1,9})\], line ([0-9]{1,9})")


@dataclass(frozen=True)
class SourceLine:
    """One line of a file.

    place  path as the user would type it, and the number: "examples/train.py:41"
    text   the line without its indentation; "" if the file has changed since the training, or is gone
    """

    place: str
    text: str = ""


class SourceText:
    """The files of one run's training. In S3, and on another machine, no file is found.

    Args:
        run: Location of the run.
        cells: Cells of the notebook in which it trains, by their numbers; none for a run of another session.
    """

    def __init__(self, run: str, *, cells: Sequence[str] = ()) -> None:
        self._run, self._cells = run, cells

    def line(self, place: str) -> SourceLine:
        """Return the line at a finding's place, "train.py:41". Never raises.

        Args:
            place: A file, relative to the folder of the script, and a number; or a cell and a line of it.
        """
        if of_cell := _CELL.fullmatch(place):
            return SourceLine(place, self._line_of_cell(int(of_cell[1]), int(of_cell[2])))
        name, _, number = place.rpartition(":")
        path = self._path(name)
        if path is None or not number.isdigit():
            return SourceLine(place)
        lines = self.text(name).splitlines()
        text = lines[int(number) - 1].strip() if 0 < int(number) <= len(lines) else ""
        return SourceLine(f"{_as_typed(path)}:{number}", text[:MOST_CHARACTERS])

    def text(self, name: str) -> str:
        """Return a file as it was in the training; "" if it has changed since, or is gone. Never raises.

        Args:
            name: The file, relative to the folder of the script.
        """
        path = self._path(name)
        try:
            if path is None or path.stat().st_mtime > self._trained_at or path.stat().st_size > MOST_BYTES:
                return ""
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _path(self, name: str) -> Path | None:
        path = Path(os.path.normpath(self._folder / name)) if self._folder is not None and name else None
        try:
            return path if path is not None and path.is_file() else None
        except (OSError, ValueError):
            return None

    def answers(self, verdict: Verdict) -> tuple[str, ...]:
        """Return the answers that a problem is about, each as a line with its reward. Never raises.

        Nothing without `--show-samples`, and for rules that are not about answers.

        Args:
            verdict: The problem's leading issue.
        """
        worst = _WORST.get(verdict.rule_id)
        steps = self._kept_answers() if worst else ()
        if not steps:
            return ()
        before = [one for one in steps if one.step <= verdict.step]
        answers = (before or steps)[-1 if before else 0].answers
        if worst == _HIGHEST:
            answers = answers[::-1]
        elif worst == _LONGEST:
            answers = tuple(sorted(answers, key=lambda one: -len(one.answer)))
        return tuple(_as_line(one) for one in answers[:MOST_ANSWERS])

    def _kept_answers(self) -> tuple[KeptAnswers, ...]:
        try:
            return read_answers(open_store(f"{self._run}/{ANSWERS}"), worker_name(0))
        except (TracksideError, OSError):
            return ()

    def _line_of_cell(self, cell: int, number: int) -> str:
        lines = self._cells[cell].splitlines() if cell < len(self._cells) else []
        return lines[number - 1].strip()[:MOST_CHARACTERS] if 0 < number <= len(lines) else ""

    @property
    def folder(self) -> str:
        """The absolute folder that places are relative to; "" if it is unknown."""
        return str(self._folder) if self._folder is not None else ""

    @property
    def run(self) -> str:
        """The location of the run."""
        return self._run

    @property
    def script(self) -> str:
        """The path of the started script; "" if it is unknown, or not on this machine."""
        facts = self.facts
        return facts.program.script if facts is not None else ""

    @property
    def facts(self) -> ModelFacts | None:
        """The facts about the program that name its script; None without any. Looked for again until some exist."""
        if "_facts" in self.__dict__ and self._facts is None:
            del self.__dict__["_facts"]
        return self._facts

    @property
    def _folder(self) -> Path | None:
        """The folder of the started script."""
        return Path(self.script).parent if self.script else None

    @cached_property
    def _facts(self) -> ModelFacts | None:
        if "://" in self._run:
            return None
        store = open_store(f"{self._run}/{TENSORS}")
        try:
            for worker in facts_workers(store):
                found = [revision for revision in read_facts(store, worker) if revision.program.script]
                if found:
                    return found[-1]
        except (TracksideError, OSError):
            return None
        return None

    @cached_property
    def _trained_at(self) -> float:
        """The moment of the newest facts, in seconds since the epoch: a later file is another text."""
        folder = Path(self._run, TENSORS, MODEL_FACTS_PREFIX)
        return max((file.stat().st_mtime for file in folder.glob("*.json")), default=0.0)


def _as_line(one: KeptAnswer) -> str:
    prompt, answer = (" ".join(text.split()) for text in (one.prompt, one.answer))
    return f"reward {one.reward:.3g}: {prompt} → {answer}" if prompt else f"reward {one.reward:.3g}: {answer}"


def _as_typed(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
