"""The messages between an evaluator and the process of a rule from a file: facts, questions, reads and errors."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    KeyNotFoundError,
    LocationNotFoundError,
    NotAFileError,
    RecordError,
    RuleEvaluationError,
    RunNotFoundError,
    StorageError,
    StorageUnavailableError,
    TensorNotSavedError,
)
from trackside.contracts.rule_catalogue import RuleDescription
from trackside.rules.rule import FoldingRule, Rule

PROFILE = "\0profile"  # in place of a run's name, which is no such text: the measurements of the run's speed
# Questions that most rules leave to the base class, which answers them without their process.
OPTIONAL = ("advice", "lacks", "nothing_to_judge", "sentence", "severity_of", "suspicions")
# Facts that stand in a class, and that an evaluator reads without a question.
_ATTRIBUTES = (
    "rule_id",
    "code",
    "watches",
    "save_interval",
    "severity",
    "since",
    "what_to_do",
    "patience",
    "judges_every_step",
    "judges_until_found",
    "paced",
    "judges_waiting",
    "needs",
    "likely_causes",
    "judges_the_end",
    "shows_its_cause",
    "presets",
    "is_asked_for",
    "escalates",
    "life_cycle",
    "other_runs",
)
_KNOWN_ERRORS = {
    kind.__name__: kind
    for kind in (
        AccessDeniedError,
        KeyNotFoundError,
        LocationNotFoundError,
        NotAFileError,
        RunNotFoundError,
        StorageError,
        StorageUnavailableError,
        TensorNotSavedError,
    )
}


@dataclass(frozen=True)
class RuleFacts:
    """The facts about a rule that an evaluator needs without its code.

    name               name of the class
    attributes         attributes of the class, by name
    parameters         values of the parameters, by name
    findings_in_a_row  as `Rule.findings_in_a_row`
    description        as `Rule.describe`
    answers            the questions of `OPTIONAL` that the class answers itself
    is_folding         True for a `FoldingRule`
    """

    name: str
    attributes: Mapping[str, Any]
    parameters: Mapping[str, Any]
    findings_in_a_row: int
    description: RuleDescription
    answers: frozenset[str]
    is_folding: bool


def facts_of(rule: Rule) -> RuleFacts:
    """Return the facts about a rule."""
    kind = type(rule)
    values = {field.name: getattr(rule, field.name) for field in fields(rule)}
    return RuleFacts(
        name=kind.__name__,
        attributes={name: getattr(kind, name) for name in _ATTRIBUTES},
        parameters={name: value for name, value in values.items() if isinstance(value, (str, int, float))},
        findings_in_a_row=rule.findings_in_a_row,
        description=kind.describe(),
        answers=frozenset(
            name
            for name in OPTIONAL
            if getattr(kind, name) is not getattr(Rule, name) or (name == "suspicions" and kind.suspects is not None)
        ),
        is_folding=isinstance(rule, FoldingRule),
    )


@dataclass(frozen=True)
class SeenStep:
    """A window without its data, which are read by messages.

    uri     location of the run's tensors; "" if unknown
    others  names of the runs that the rule compares with
    """

    step: int
    mode: str
    now: float
    newest_step_at: float
    is_last: bool
    uri: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Load:
    """Load the rule of a configuration, within `memory_bytes` of memory. The answer is `RuleFacts`."""

    configuration: Any
    memory_bytes: int


@dataclass(frozen=True)
class Question:
    """Call a method of the rule. A `SeenStep` among the arguments stands for a window."""

    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Read:
    """Call a method of a source of the window: the judged run (""), one that the rule compares with, or `PROFILE`."""

    run: str
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """The result of a question or a read."""

    value: Any


@dataclass(frozen=True)
class Raised:
    """An error in place of an answer. `traceback` is text for the log."""

    kind: str
    arguments: tuple[Any, ...]
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Return the message for an error."""
        text = "".join(traceback.format_exception(error))
        if isinstance(error, ConfigurationError):
            return cls(ConfigurationError.__name__, (error.problems,), text)
        if isinstance(error, RecordError):
            return cls(RecordError.__name__, (error.key, error.offset, error.what), text)
        known = (kind.__name__ for kind in type(error).__mro__ if _KNOWN_ERRORS.get(kind.__name__) is kind)
        return cls(next(known, type(error).__name__), (str(error),), text)

    def error(self) -> Exception:
        """Return the error: of the same type if Trackside handles it, else one of the same name."""
        error = self._error()
        error.__cause__ = RemoteTraceback(self.traceback)
        return error

    def _error(self) -> Exception:
        if self.kind == ConfigurationError.__name__:
            return ConfigurationError(*self.arguments, subject="The rule request")
        if self.kind == RecordError.__name__:
            return RecordError(*self.arguments)
        kind: type[Exception] = _KNOWN_ERRORS.get(self.kind) or type(self.kind, (RuleEvaluationError,), {})
        return kind(*self.arguments)


class RemoteTraceback(Exception):
    """The traceback of an error in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"
