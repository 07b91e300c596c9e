"""What a rule is: a frozen dataclass of its parameters plus one pure method."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard, cast, get_type_hints

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.rule_catalogue import ParameterDescription, RuleDescription
from trackside.contracts.verdict import Finding, Severity
from trackside.trial.window import Window

_KINDS = {float: "number", int: "integer", bool: "boolean", str: "text"}


def parameter(default: Any, help: str, *, minimum: float | None = None, maximum: float | None = None) -> Any:  # noqa: A002
    """Declares a parameter of a rule, once: parsing, validation, CLI help, docs and schema come from here."""
    return dataclasses.field(default=default, metadata={"help": help, "minimum": minimum, "maximum": maximum})


@dataclass(frozen=True)
class Rule(ABC):
    """A question about a run. Subclasses are frozen dataclasses; see `vanishing_gradient.py` for the shape.

    Facts are class attributes: `rule_id` names the problem; `watches` names the collections it reads, and it judges
    each step at which one of them was saved; `save_interval` is how often they should be saved when the user says
    nothing; `patience` is how many judged steps in a row must show a finding before the evaluator says so.
    `judges_every_step` is for a rule that must be shown every complete step in order, whatever was saved at it.
    """

    rule_id: ClassVar[str]
    watches: ClassVar[tuple[str, ...]]
    save_interval: ClassVar[int]
    severity: ClassVar[Severity]
    since: ClassVar[str]
    what_to_do: ClassVar[tuple[str, ...]]
    patience: ClassVar[int] = 1
    judges_every_step: ClassVar[bool] = False

    @abstractmethod
    def check(self, window: Window) -> Iterable[Finding]:
        """What is wrong at `window.step`; nothing if all is well. Pure: no clock, disk, network or randomness."""

    def lacks(self, window: Window) -> str:
        """What is still missing before finding nothing at this step means that all is well; empty: nothing is.

        A clause for a user: `two windows of 500 steps; the run has 320`. A run that ends while something is missing is
        neither clean nor at fault: it could not be evaluated.
        """
        return ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """The verdict's message, worst finding first, where the rule knows better words; empty: it does not."""
        return ""

    @classmethod
    def describe(cls) -> RuleDescription:
        """The facts and parameters of this rule, as they stand in the catalogue."""
        return RuleDescription(
            rule_id=cls.rule_id,
            summary=(inspect.getdoc(cls) or "").split("\n", 1)[0],
            watches=cls.watches,
            save_interval=cls.save_interval,
            severity=cls.severity,
            since=cls.since,
            parameters=cls.parameters(),
        )

    @classmethod
    def parameters(cls) -> tuple[ParameterDescription, ...]:
        """Every declared parameter, in order."""
        hints = get_type_hints(cls)
        return tuple(
            ParameterDescription(
                name=field.name,
                kind=_KINDS[hints[field.name]],
                default=cast("float", field.default),  # `parameter` always gives one
                help=field.metadata["help"],
                minimum=field.metadata["minimum"],
                maximum=field.metadata["maximum"],
            )
            for field in dataclasses.fields(cls)
        )

    @classmethod
    def from_parameters(cls, texts: Mapping[str, str]) -> Rule:
        """The rule with these parameters, given as texts. Errors: `ConfigurationError` with every problem at once."""
        known = {description.name: description for description in cls.parameters()}
        values: dict[str, Any] = {}
        problems = []
        for name, text in texts.items():
            if name not in known:
                what = f"Unknown parameter {name!r}."
                problems.append(Problem(where=cls.rule_id, what=what, fix=did_you_mean(name, known)))
                continue
            try:
                values[name] = known[name].parse(text)
            except ValueError as error:
                problems.append(Problem(where=f"{cls.rule_id}.{name}", what=str(error)))
        if problems:
            raise ConfigurationError(problems, subject="The rule request")
        return cls(**values)


def is_rule(member: object) -> TypeGuard[type[Rule]]:
    """True for a class that can be built and asked."""
    # `isinstance(member, type)` holds for `list[float]` on Python 3.10, and `issubclass` then refuses it.
    if not issubclass(type(member), type):
        return False
    return issubclass(cast("type", member), Rule) and not inspect.isabstract(member)
