"""The catalogue of rules, without importing one: `rule_catalogue.json` is generated from the rules themselves."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from trackside.contracts.capture_request import (
    BUILT_IN_COLLECTIONS,
    KNOWN_COLLECTIONS,
    CaptureRequest,
    CollectionRequest,
    Schedule,
    read_collection,
)
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.fields import Fields
from trackside.contracts.name_pattern import name_pattern, problem_of
from trackside.contracts.rule_request import (
    CALIBRATED,
    CLASS_PARAMETER,
    PRESETS,
    SOURCE_PARAMETER,
    RuleConfiguration,
    RuleRequest,
)
from trackside.contracts.verdict import Severity

CATALOGUE_FILE = Path(__file__).with_name("rule_catalogue.json")

# Saved for a user's rule without collections of its own. Losses are small, so they are saved more often.
CUSTOM_RULE_CAPTURE = CaptureRequest(
    tuple(CollectionRequest(name, Schedule(10 if name == "losses" else 100)) for name in KNOWN_COLLECTIONS)
)

SAVED_TOO = "Saved too"  # beginning of a note about collections that only the rules need
_NAMES_OF_COLLECTIONS = "collection_names"  # name of the parameter in every rule that has it


class LifeCycle(str, Enum):
    """The maturity of a rule.

    PREVIEW     new: judges only if chosen, and may change or go in any release
    STABLE      judges as its page describes; changes follow the deprecation policy
    DEPRECATED  still judges; its page names the replacement and the release of its removal
    """

    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"


@dataclass(frozen=True)
class ParameterDescription:
    """One parameter of a rule.

    name      its name in a rule request
    kind      `number`, `integer`, `boolean` or `text`
    default   its default value
    help      one sentence
    minimum   least permitted number; None: no limit
    maximum   greatest permitted number; None: no limit
    """

    name: str
    kind: str
    default: float | int | bool | str
    help: str
    minimum: float | None = None
    maximum: float | None = None

    def parse(self, text: str) -> float | int | bool | str:
        """Return the value that `text` stands for.

        Args:
            text: The value as a rule request carries it.

        Raises:
            ValueError: The text is no permitted value. Names the permitted ones.
        """
        value: float | int | bool | str = _PARSERS[self.kind](text.strip())
        if self.name.endswith("regex"):
            _check_regex(text)
        if not isinstance(value, str):
            if self.minimum is not None and value < self.minimum:
                raise ValueError(f"must be at least {self.minimum:g}, but is {text!r}.")
            if self.maximum is not None and value > self.maximum:
                raise ValueError(f"must be at most {self.maximum:g}, but is {text!r}.")
        return value


@dataclass(frozen=True)
class RuleDescription:
    """One rule: its name, purpose, needs and parameters.

    rule_id        its id
    summary        one sentence
    watches        collections that it reads
    save_interval  steps between saves of them
    severity       severity of its issues
    since          release that added it
    parameters     its parameters
    needs          collections to save; None: `watches` at `save_interval`
    presets        its description in each other preset that it offers
    is_asked_for   True: it judges only if chosen
    life_cycle     preview, stable or deprecated
    code           short name that never changes: `TS101`; "" for a rule of the user's
    """

    rule_id: str
    summary: str
    watches: tuple[str, ...]
    save_interval: int
    severity: Severity
    since: str
    parameters: tuple[ParameterDescription, ...]
    needs: tuple[CollectionRequest, ...] | None = None
    presets: Mapping[str, RuleDescription] = field(default_factory=dict)
    is_asked_for: bool = False
    life_cycle: LifeCycle = LifeCycle.STABLE
    code: str = ""

    @property
    def is_on_by_default(self) -> bool:
        """True if the rule judges in a run for which no rules were chosen."""
        return not self.is_asked_for and self.life_cycle is not LifeCycle.PREVIEW

    def in_sense_of(self, preset: str) -> RuleDescription | None:
        """Return the description of the rule in a preset, or None if the rule does not offer it.

        Args:
            preset: Name of the preset; "": Trackside's own.
        """
        return self if preset in {"", CALIBRATED} else self.presets.get(preset)

    @property
    def capture_request(self) -> CaptureRequest:
        """The collections to save for this rule, with its default parameters."""
        if self.needs is not None:
            return CaptureRequest(self.needs)
        return CaptureRequest(tuple(CollectionRequest(name, Schedule(self.save_interval)) for name in self.watches))

    def capture_request_with(self, parameters: Mapping[str, str]) -> CaptureRequest:
        """Return the collections to save for this rule with these parameters.

        If the rule has a parameter for names of collections, they are the named ones. The user's own collections are
        left out: their definition includes their members and their schedule.

        Args:
            parameters: Parameters by name, as texts.
        """
        is_configured = any(parameter.name == _NAMES_OF_COLLECTIONS for parameter in self.parameters)
        names = parameters.get(_NAMES_OF_COLLECTIONS, "").replace(",", " ").split() if is_configured else []
        if not names:
            return self.capture_request
        schedule = Schedule(self.save_interval)
        known = [name for name in dict.fromkeys(names) if name in BUILT_IN_COLLECTIONS]
        return CaptureRequest(tuple([CollectionRequest(name, schedule) for name in known]))


@dataclass(frozen=True)
class RuleCatalogue:
    """All rules by id."""

    rules: Mapping[str, RuleDescription]

    def check(self, request: RuleRequest) -> None:
        """Raise an error for unknown rules, unknown parameters and wrong values.

        Args:
            request: The rules and their parameters.

        Raises:
            ConfigurationError: The request has problems. Lists all of them.
        """
        problems = [problem for configuration in request.rules for problem in self.problems(configuration)]
        if problems:
            raise ConfigurationError(problems, subject="The rule request")

    @property
    def usual(self) -> tuple[str, ...]:
        """The rules that judge in a run for which no rules were chosen."""
        return tuple([rule_id for rule_id, rule in self.rules.items() if rule.is_on_by_default])

    def code_of(self, rule_id: str) -> str:
        """Return the short code of a rule; "" for a rule of the user's.

        Args:
            rule_id: Id of the rule.
        """
        rule = self.rules.get(rule_id)
        return rule.code if rule else ""

    def id_of(self, name: str) -> str:
        """Return the id of the rule with this id or short code, in any case of letters; any other name as it is.

        Args:
            name: A rule as users name it: `dead-relu`, `TS203`.
        """
        if name in self.rules:
            return name
        code = name.upper()
        return next((rule_id for rule_id, rule in self.rules.items() if rule.code == code), name)

    def problems(self, configuration: RuleConfiguration) -> list[Problem]:
        """Return the problems of one configuration.

        For a rule from the user's file, only those that show without reading the file.

        Args:
            configuration: The rule and its parameters.
        """
        parameters = configuration.parameters
        if SOURCE_PARAMETER in parameters and not (parameters.get(CLASS_PARAMETER) and parameters[SOURCE_PARAMETER]):
            what = f"{SOURCE_PARAMETER!r} and {CLASS_PARAMETER!r} must be given together, and neither may be empty."
            fix = "Name the Python file by the one and the rule's class in it by the other."
            return [Problem(where=configuration.name, what=what, fix=fix)]
        if configuration.custom is not None:
            return []
        if configuration.collections:
            what = "`collections` is for a rule of your own; this one says itself what it needs."
            return [Problem(where=configuration.name, what=what, fix="Leave it out.")]
        rule = self.rules.get(configuration.rule_id)
        if rule is None:
            fix = did_you_mean(configuration.rule_id, self.rules)
            if not fix.startswith("Did"):  # the list of all would be long
                fix = "`trackside rules list` shows them all; one of your own is FILE.py:CLASS."
            return [Problem(where="rules", what=f"Unknown rule {configuration.rule_id!r}.", fix=fix)]
        described = rule.in_sense_of(configuration.preset)
        if described is None:
            return [_no_such_preset(rule, configuration)]
        return _parameter_problems(described, parameters)

    def needs(self, configuration: RuleConfiguration) -> CaptureRequest:
        """Return the collections to save for the rule of a configuration.

        Args:
            configuration: A configuration without `problems`.
        """
        if configuration.custom is None:
            rule = self.rules[configuration.rule_id]
            return (rule.in_sense_of(configuration.preset) or rule).capture_request_with(configuration.parameters)
        return CaptureRequest(configuration.collections) if configuration.collections else CUSTOM_RULE_CAPTURE

    def capture_request(self, request: RuleRequest) -> CaptureRequest:
        """Return the union of the collections to save for all rules of a request.

        Args:
            request: A request that passed `check`.
        """
        merged = CaptureRequest(())
        for configuration in request.rules:
            merged = merged.merged_with(self.needs(configuration))
        return merged

    def with_needs(
        self, capture: CaptureRequest, rules: Sequence[RuleConfiguration], notes: list[str]
    ) -> CaptureRequest:
        """Return `capture` with the collections that the rules need.

        A rule in a preset of Amazon's takes the user's schedules, one of Trackside's own gets the steps it needs.

        Args:
            capture: The request so far.
            rules: The rules.
            notes: Gets a sentence for each addition.
        """
        for rule in rules:
            needed = self.needs(rule)
            if rule.preset not in {"", CALIBRATED} or rule.custom:
                needed = CaptureRequest(tuple(c for c in needed.collections if capture.collection(c.name) is None))
            added = [c.name for c in needed.collections if capture.collection(c.name) is None]
            if added:
                notes.append(f"{SAVED_TOO}, because {rule.name} watches it: {', '.join(added)}.")
            capture = capture.merged_with(needed)
        return capture


def _no_such_preset(rule: RuleDescription, configuration: RuleConfiguration) -> Problem:
    offered = [preset for preset in PRESETS if rule.in_sense_of(preset) is not None]
    what = f"{rule.rule_id} has no preset {configuration.preset!r}: Amazon documents no such rule."
    if configuration.preset not in PRESETS:
        what = f"There is no preset {configuration.preset!r}."
    return Problem(where=f"{configuration.name}.preset", what=what, fix=f"It offers {', '.join(offered)}.")


def _parameter_problems(rule: RuleDescription, parameters: Mapping[str, str]) -> list[Problem]:
    known = {parameter.name: parameter for parameter in rule.parameters}
    problems = []
    for name, text in parameters.items():
        if name not in known:
            what = f"Unknown parameter {name!r}."
            problems.append(Problem(where=rule.rule_id, what=what, fix=did_you_mean(name, known)))
            continue
        try:
            known[name].parse(text)
        except ValueError as error:
            fix = f"`trackside rules show {rule.rule_id}` says what works."
            problems.append(Problem(where=f"{rule.rule_id}.{name}", what=str(error), fix=fix))
    return problems


def parse_catalogue(text: str) -> RuleCatalogue:
    """Return the catalogue in the generated JSON.

    Args:
        text: Content of `rule_catalogue.json`.
    """
    rules = [_read_rule(entry) for entry in json.loads(text)["rules"]]
    return RuleCatalogue({rule.rule_id: rule for rule in rules})


def _read_rule(entry: Mapping[str, Any]) -> RuleDescription:
    needs = Fields(entry, where=entry["rule"]).items("needs", read_collection) if "needs" in entry else None
    return RuleDescription(
        rule_id=entry["rule"],
        summary=entry["summary"],
        watches=tuple(entry["watches"]),
        save_interval=entry["save_interval"],
        severity=Severity(entry["severity"]),
        since=entry["since"],
        parameters=tuple(ParameterDescription(**parameter) for parameter in entry["parameters"]),
        needs=needs,
        is_asked_for=entry.get("is_asked_for", False),
        life_cycle=LifeCycle(entry.get("life_cycle", LifeCycle.STABLE)),
        code=entry.get("code", ""),
        presets={preset: _read_rule(of_preset) for preset, of_preset in entry.get("presets", {}).items()},
    )


@cache
def built_in_catalogue() -> RuleCatalogue:
    """Return the rules that ship with Trackside. The generated file beside this module is read once."""
    return parse_catalogue(CATALOGUE_FILE.read_text(encoding="utf-8"))


def _check_regex(text: str) -> None:
    """Raise `ValueError` if `text` is no regular expression. A comma is part of it and separates nothing."""
    try:
        name_pattern(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression, but {text!r} {problem_of(error)}.") from None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"must be a number, but is {text!r}.") from None
    if not math.isfinite(number):  # NaN would pass every bound, and no comparison with it ever holds
        raise ValueError(f"must be a finite number, but is {text!r}.")
    return number


def _integer(text: str) -> int:
    number = _number(text)
    if number != number // 1:
        raise ValueError(f"must be a whole number, but is {text!r}.")
    return int(number)


def _boolean(text: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise ValueError(f"must be true or false, but is {text!r}.")
    return words[text.lower()]


_PARSERS: Mapping[str, Callable[[str], float | int | bool | str]] = {
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "text": str,
}
