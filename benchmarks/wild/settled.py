"""Written answers to alarms of the corpus: is the trainer wrong, or the rule?

Those of the half `report` stand in a file of their own, written by somebody who changes no rule. People who change
rules read neither that file nor its answers one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.judge import Alarm

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TUNE_ANSWERS = Path(__file__).with_name("settled.toml")
REPORT_ANSWERS = Path(__file__).with_name("settled_unread.toml")


@dataclass(frozen=True)
class Answer:
    """What a person found out about the alarms of one rule on one program.

    is_true  True: something is wrong with the training; False: the rule is wrong
    why      what is wrong with it, or why nothing is
    """

    program: str
    rule: str
    is_true: bool
    why: str


def read_answers(paths: Iterable[Path] = (TUNE_ANSWERS, REPORT_ANSWERS)) -> Mapping[tuple[str, str], Answer]:
    """Return the answers of all files by program and rule.

    Raises:
        ValueError: If two answers are about the same, in one file or in two.
    """
    answers = [
        Answer(each["program"], each["rule"], each["is_true"], each["why"].strip())
        for path in paths
        for each in tomllib.loads(path.read_text(encoding="utf-8"))["answer"]
    ]
    found = {(each.program, each.rule): each for each in answers}
    if len(found) < len(answers):
        raise ValueError("Two answers are about the same program and rule.")
    return found


def is_false_or_open(program: str, alarm: Alarm, answers: Mapping[tuple[str, str], Answer]) -> bool:
    """Return True unless the answer to this alarm is that something is wrong with the training."""
    answer = answers.get((program, alarm.rule))
    return answer is None or not answer.is_true
