"""How far an evaluator has come: what it needs to go on after a restart as if nothing had happened.

Lies in `<run>/rule-output/progress.json`, written whole or not at all. A verdict is stored here before it is sent and
marked as delivered afterwards, so that a kill at any point loses nothing; what was sent but not yet marked is sent
again, and a sink knows it by its id.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError
from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.run_layout import PROGRESS_KEY
from trackside.contracts.verdict import Verdict
from trackside.storage.store import Store

VERSION = 2  # 1 knew no life of an issue: judging again from the start is always safe
MOST_BYTES = 32 << 20  # what is larger is cut there, and so is no JSON

_logger = logging.getLogger(__name__)

Subject = tuple[str, str]  # worker, tensor


@dataclass
class RuleProgress:
    """How far one rule configuration has come.

    `judged` counts the steps that had data for it; `streak` how many of the newest of them in a row showed a finding,
    and `since` the first step of each subject that was found throughout. `lacks` is what the
    rule still missed at the newest step that it could not answer for. `error` is set once it has crashed.
    """

    judged_through: int = -1
    judged: int = 0
    unreadable: int = 0
    lacks: str = ""
    streak: int = 0
    since: Mapping[Subject, int] = field(default_factory=dict)
    error: str = ""
    issues: int = 0
    is_open: bool = False
    quiet: int = 0
    has_concluded: bool = False
    memory: str = ""


@dataclass
class Said:
    """A verdict, and the names of the sinks that have not taken it yet."""

    verdict: Verdict
    undelivered: tuple[str, ...]


@dataclass
class Progress:
    """Of all rule configurations, by name. Mutable: the evaluator's own notebook."""

    rules: dict[str, RuleProgress] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every verdict so far, oldest first."""
        return tuple(said.verdict for said in self.said)

    @property
    def outbox(self) -> tuple[Said, ...]:
        """Verdicts that some sink has not taken yet."""
        return tuple(said for said in self.said if said.undelivered)

    def to_json(self) -> str:
        """One line of JSON."""
        return to_json(
            {
                "version": VERSION,
                "rules": [{"name": name, **_rule_document(rule)} for name, rule in self.rules.items()],
                "said": [
                    {"verdict": json.loads(said.verdict.to_json()), "undelivered": list(said.undelivered)}
                    for said in self.said
                ],
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Progress:
        """Reads `to_json`'s text. Errors: `ConfigurationError`."""
        subject = "The evaluator's progress"
        fields = Fields(parse_json(text, subject=subject), where="")
        if fields.integer("version") != VERSION:
            fields.problem("version", f"must be {VERSION}.")
        rules = fields.items("rules", _read_rule)
        said = fields.items("said", _read_said)
        fields.finish(subject=subject)
        return cls(rules=dict(rules), said=list(said))


class ProgressFile:
    """The progress of one run in its `rule-output`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load(self) -> Progress:
        """What was saved last; a fresh start if there is nothing, or nothing that can be read.

        Judging again from the start is always safe: rules are pure, and a verdict said twice has the same id.
        """
        try:
            return Progress.from_json(self._store.get(PROGRESS_KEY, length=MOST_BYTES))
        except KeyNotFoundError:
            return Progress()
        except ConfigurationError as error:
            _logger.warning("The evaluator starts from the first step: %s", error)
            return Progress()

    def save(self, progress: Progress) -> None:
        """Stores it whole. Errors: those of the store."""
        self._store.put(PROGRESS_KEY, progress.to_json().encode())


def keep_only(progress: Progress, *, configurations: Iterable[str], sinks: Iterable[str]) -> Progress:
    """Without what a restarted evaluator no longer judges, or no longer sends to."""
    names, known = tuple(configurations), set(sinks)
    return Progress(
        rules={name: progress.rules.get(name) or RuleProgress() for name in names},
        said=[
            Said(said.verdict, tuple(sink for sink in said.undelivered if sink in known))
            for said in progress.said
            if said.verdict.configuration_name in names
        ],
    )


def _rule_document(rule: RuleProgress) -> dict[str, object]:
    return {
        "judged_through": rule.judged_through,
        "judged": rule.judged,
        "unreadable": rule.unreadable,
        "lacks": rule.lacks,
        "streak": rule.streak,
        "since": [{"worker": worker, "subject": name, "step": step} for (worker, name), step in rule.since.items()],
        "error": rule.error,
        "issues": rule.issues,
        "is_open": rule.is_open,
        "quiet": rule.quiet,
        "has_concluded": rule.has_concluded,
        "memory": rule.memory,
    }


def _read_rule(fields: Fields) -> tuple[str, RuleProgress]:
    return fields.text("name"), RuleProgress(
        judged_through=fields.integer("judged_through"),
        judged=fields.integer("judged"),
        unreadable=fields.integer("unreadable"),
        lacks=fields.text("lacks", ""),
        streak=fields.integer("streak"),
        since=dict(fields.items("since", _read_since)),
        error=fields.text("error", ""),
        issues=fields.integer("issues", 0),
        is_open=fields.boolean("is_open", False),
        quiet=fields.integer("quiet", 0),
        has_concluded=fields.boolean("has_concluded", False),
        memory=fields.text("memory", ""),
    )


def _read_since(fields: Fields) -> tuple[Subject, int]:
    return (fields.text("worker"), fields.text("subject")), fields.integer("step")


def _read_said(fields: Fields) -> Said:
    verdict = Verdict.from_json(json.dumps(dict(fields.mapping("verdict"))))
    return Said(verdict, fields.texts("undelivered"))
