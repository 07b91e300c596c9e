"""The stored progress of an evaluator: a restarted one continues as if nothing had happened.

Lies in `<run>/rule-output/progress.json`, written whole or not at all. A verdict is stored here before it is sent and
marked as delivered afterwards, so that a kill at any point loses nothing. A verdict that was sent but not yet marked is
sent again, and a sink recognizes it by its id.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError
from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.run_layout import PROGRESS_KEY
from trackside.contracts.stored_fields import (
    BOOLEAN,
    INTEGER,
    REQUIRED,
    TEXT,
    TEXTS,
    Kind,
    document_of,
    nullable,
    record,
    record_of,
    stored,
)
from trackside.contracts.verdict import Finding, Verdict
from trackside.storage.store import Store

VERSION = 2  # version 1 lacks the states of issues; it is discarded, since judging again is always safe
_SUBJECT = "The evaluator's progress"
MOST_BYTES = 32 << 20  # a larger file is cut here, and is then no valid JSON

_logger = logging.getLogger(__name__)

Subject = tuple[str, str]  # worker, tensor


SINCE = Kind(
    {"type": "array"},
    lambda fields, name, absent: dict(fields.items(name, _read_since)),
    lambda since: [{"worker": worker, "subject": name, "step": step} for (worker, name), step in since.items()],
)


@dataclass
class RuleProgress:
    """The progress of one rule configuration.

    judged     the number of steps with data for it
    unreadable the number of steps that could not be read
    lacks      the missing input at the newest step that could not be judged
    streak     the number of newest steps in a row with a finding
    since      the first step of each subject that was found throughout the streak
    error      set once the rule has crashed
    memory     the state of a rule that folds
    severity   the rank of the severity of the last issue
    weighed_through  the newest step at which the severity was decided
    opened     the leading finding of the open issue
    """

    judged_through: int = field(default=-1, metadata=stored(INTEGER, absent=REQUIRED))
    judged: int = field(default=0, metadata=stored(INTEGER, absent=REQUIRED))
    unreadable: int = field(default=0, metadata=stored(INTEGER, absent=REQUIRED))
    lacks: str = field(default="", metadata=stored(TEXT))
    streak: int = field(default=0, metadata=stored(INTEGER, absent=REQUIRED))
    since: Mapping[Subject, int] = field(default_factory=dict, metadata=stored(SINCE))
    error: str = field(default="", metadata=stored(TEXT))
    issues: int = field(default=0, metadata=stored(INTEGER))
    is_open: bool = field(default=False, metadata=stored(BOOLEAN))
    quiet: int = field(default=0, metadata=stored(INTEGER))
    severity: int = field(default=0, metadata=stored(INTEGER))
    has_concluded: bool = field(default=False, metadata=stored(BOOLEAN))
    memory: str = field(default="", metadata=stored(TEXT))
    weighed_through: int = field(default=-1, metadata=stored(INTEGER))
    opened: Finding | None = field(default=None, metadata=stored(nullable(record(Finding)), optional=True))

    def copied(self) -> RuleProgress:
        """Return a copy. `dataclasses.replace` would take a tenth of judging a step."""
        copy = object.__new__(RuleProgress)
        vars(copy).update(vars(self))
        return copy


@dataclass
class Delivery:
    """A verdict, and the names of the sinks that have not taken it yet."""

    verdict: Verdict = field(metadata=stored(record(Verdict)))
    undelivered: tuple[str, ...] = field(metadata=stored(TEXTS))


@dataclass
class Progress:
    """The progress of all rule configurations of a run, changed in place by the evaluator.

    rules       progress by configuration name
    deliveries  all verdicts so far, with their undelivered sinks
    """

    rules: dict[str, RuleProgress] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every verdict so far, oldest first."""
        return tuple(delivery.verdict for delivery in self.deliveries)

    @property
    def outbox(self) -> tuple[Delivery, ...]:
        """Verdicts that some sink has not taken yet."""
        return tuple(delivery for delivery in self.deliveries if delivery.undelivered)

    def to_json(self) -> str:
        """Return the progress as one line of JSON."""
        return to_json(
            {
                "version": VERSION,
                "rules": [{"name": name, **document_of(rule)} for name, rule in self.rules.items()],
                "said": [document_of(delivery) for delivery in self.deliveries],
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Progress:
        """Return the progress in a text of `to_json`. Errors: `ConfigurationError`."""
        fields = _fields(text)
        rules = fields.items("rules", _read_rule)
        deliveries = fields.items("said", partial(record_of, Delivery))
        fields.finish(subject=_SUBJECT)
        return cls(rules=dict(rules), deliveries=list(deliveries))

    @staticmethod
    def rules_of_json(text: str | bytes) -> dict[str, RuleProgress]:
        """Return `rules` of a text of `to_json`. Errors: `ConfigurationError`."""
        fields = _fields(text)
        rules = fields.items("rules", _read_rule)
        fields.finish(subject=_SUBJECT)
        return dict(rules)


def _fields(text: str | bytes) -> Fields:
    fields = Fields(parse_json(text, subject=_SUBJECT), where="")
    if fields.integer("version") != VERSION:
        fields.problem("version", f"must be {VERSION}.")
    return fields


class ProgressFile:
    """The progress file of one run. `store` is rooted at the run's `rule-output`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load(self) -> Progress:
        """Return the stored progress; a fresh start if it is missing or unreadable.

        Judging again from the start is always safe: rules are pure, and a verdict sent twice has the same id.
        """
        try:
            return Progress.from_json(self._store.get(PROGRESS_KEY, length=MOST_BYTES))
        except KeyNotFoundError:
            return Progress()
        except ConfigurationError as error:
            _logger.warning("The evaluator starts from the first step: %s", error)
            return Progress()

    def rules(self) -> dict[str, RuleProgress]:
        """Return the progress by configuration name; none if it is missing or unreadable.

        The verdicts, nearly all of the file, are not read: so a list of many runs is quick.
        """
        try:
            return Progress.rules_of_json(self._store.get(PROGRESS_KEY, length=MOST_BYTES))
        except (KeyNotFoundError, ConfigurationError):
            return {}

    def save(self, progress: Progress) -> None:
        """Store the progress, whole or not at all. Errors: those of the store."""
        self._store.put(PROGRESS_KEY, progress.to_json().encode())


def keep_only(progress: Progress, *, configurations: Iterable[str], sinks: Iterable[str]) -> Progress:
    """Return the progress without the configurations and sinks that a restarted evaluator no longer has."""
    names, sink_names = tuple(configurations), set(sinks)
    return Progress(
        rules={name: progress.rules.get(name) or RuleProgress() for name in names},
        deliveries=[
            Delivery(delivery.verdict, tuple(sink for sink in delivery.undelivered if sink in sink_names))
            for delivery in progress.deliveries
            if delivery.verdict.configuration_name in names
        ],
    )


def _read_rule(fields: Fields) -> tuple[str, RuleProgress]:
    return fields.text("name"), record_of(RuleProgress, fields)


def _read_since(fields: Fields) -> tuple[Subject, int]:
    return (fields.text("worker"), fields.text("subject")), fields.integer("step")
