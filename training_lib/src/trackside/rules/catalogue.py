"""The catalogue of rules: files of this package and of products, and entry points of the group `trackside.rules`.

A user's own rule comes from a file that the request names: `rule_file.py`.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

import trackside.rules
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.capture_request import collections_document
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import RuleCatalogue, RuleDescription, built_in_catalogue
from trackside.contracts.rule_request import CALIBRATED, RuleConfiguration, RuleRequest
from trackside.products import RULES
from trackside.rules.rule import Rule, is_rule
from trackside.rules.rule_file import load_rule

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "trackside.rules"


@dataclass(frozen=True)
class ConfiguredRule:
    """A rule, ready to judge, and the configuration it came from."""

    configuration: RuleConfiguration
    rule: Rule


def built_in_rules() -> Mapping[str, type[Rule]]:
    """Return the rules that ship with Trackside, by id, sorted. Imports every file of rules, once."""
    return _built_in()


def load_rules() -> Mapping[str, type[Rule]]:
    """Return all rules by id: those that ship with Trackside and those of installed packages.

    A package offers a rule by an entry point of the group `trackside.rules`, named by the rule's id:
    `my-rule = "my_package.my_rule:MyRule"`. Errors: `ConfigurationError` that names every broken entry point.
    """
    return MappingProxyType({**_built_in(), **_load_plugins(_plugins().values())})


def build_rules(
    request: RuleRequest, *, load: Callable[[RuleConfiguration], Rule] = load_rule
) -> tuple[ConfiguredRule, ...]:
    """Return the rules of a request, ready to judge, in its order.

    Only the modules, packages and files of the requested rules are imported. `load` returns the rule of a configuration
    with a file. Errors: one `ConfigurationError` that lists every unknown rule, unknown parameter, wrong value and file
    that does not work.
    """
    rules = _Rules.requested(request)
    catalogue = rules.catalogue(request)
    built: list[ConfiguredRule] = []
    problems: list[Problem] = []
    for configuration in request.rules:
        if wrong := catalogue.problems(configuration):
            problems += wrong
            continue
        try:
            built.append(ConfiguredRule(configuration, _build(configuration, rules, load)))
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems, subject="The rule request")
    return tuple(built)


def _build(configuration: RuleConfiguration, rules: _Rules, load: Callable[[RuleConfiguration], Rule]) -> Rule:
    if configuration.custom is not None:
        return load(configuration)
    preset = configuration.preset or CALIBRATED
    return rules.of(configuration.rule_id, preset).from_parameters(configuration.parameters, preset=preset)


def default_request(actions: tuple[Action, ...] = DEFAULT_ACTIONS) -> RuleRequest:
    """Return the request for the built-in rules with their defaults, which judge a run without a request."""
    usual = built_in_catalogue().usual
    return RuleRequest(tuple([RuleConfiguration(rule_id, actions=actions) for rule_id in usual]))


def catalogue_json() -> str:
    """Return the text of `contracts/rule_catalogue.json`: every built-in rule, the same on every machine and Python."""
    ours = _Rules(_built_in(), documented_rules())
    rules = [_entry(ours.described(rule_id)) for rule_id in ours.calibrated]
    return json.dumps({"rules": rules}, indent=2) + "\n"


def rules_in(module: ModuleType) -> Iterator[type[Rule]]:
    """Yield the rules that a module defines itself."""
    for _, member in sorted(vars(module).items()):
        if is_rule(member) and member.__module__ == module.__name__:
            yield member


@cache
def _built_in() -> Mapping[str, type[Rule]]:
    return _calibrated(_all_built_in())


@cache
def documented_rules() -> Mapping[tuple[str, str], type[Rule]]:
    """Return the rules of presets other than Trackside's own, by id and preset."""
    return _documented(_all_built_in())


@cache
def _all_built_in() -> tuple[type[Rule], ...]:
    return tuple([rule for name in _names_of_modules() for rule in rules_in(importlib.import_module(name))])


def _calibrated(rules: Iterable[type[Rule]]) -> Mapping[str, type[Rule]]:
    return by_id(rule for rule in rules if CALIBRATED in rule.presets)


def _documented(rules: Iterable[type[Rule]]) -> Mapping[tuple[str, str], type[Rule]]:
    named = [(rule, preset) for rule in rules for preset in rule.presets if preset != CALIBRATED]
    return MappingProxyType({(rule.rule_id, preset): rule for rule, preset in named})


@dataclass(frozen=True)
class _Rules:
    """A set of rules: Trackside's own by id, those of other presets by id and preset."""

    calibrated: Mapping[str, type[Rule]]
    documented: Mapping[tuple[str, str], type[Rule]]

    @classmethod
    def requested(cls, request: RuleRequest) -> _Rules:
        """Return the rules that the request names: built-in ones, and those of installed packages."""
        named = [configuration for configuration in request.rules if configuration.custom is None]
        rule_ids = {each.rule_id for each in named}
        with_preset = {each.rule_id for each in named if each.preset not in {"", CALIBRATED}}
        first: dict[str, str] = {}
        files = [
            name
            for name in _names_of_modules()  # another file of the same name has the rule in another sense
            if _rule_id_of(name) in (rule_ids if first.setdefault(_rule_id_of(name), name) == name else with_preset)
        ]
        ours = [rule for name in files for rule in rules_in(importlib.import_module(name))]
        calibrated = _calibrated(ours)
        others = rule_ids - calibrated.keys()
        plugins = [plugin for name, plugin in _plugins().items() if name in others] if others else []
        return cls({**calibrated, **_load_plugins(plugins)}, _documented(ours))

    def of(self, rule_id: str, preset: str) -> type[Rule]:
        """Return the rule of a preset."""
        return self.calibrated[rule_id] if preset == CALIBRATED else self.documented[rule_id, preset]

    def described(self, rule_id: str) -> RuleDescription:
        """Return the description of a rule, with its presets."""
        presets = {p: rule.describe(p) for (other, p), rule in sorted(self.documented.items()) if other == rule_id}
        return replace(self.calibrated[rule_id].describe(), presets=presets)

    def catalogue(self, request: RuleRequest) -> RuleCatalogue:
        """Return the descriptions of the rules of a request.

        With a wrong name in it, all that ship with Trackside as well, for a suggestion: reading them takes a while.
        """
        described = {each: self.described(each) for each in self.calibrated}
        if all(rule.custom is not None or rule.rule_id in described for rule in request.rules):
            return RuleCatalogue(described)
        return RuleCatalogue({**built_in_catalogue().rules, **described})


def by_id(rules: Iterable[type[Rule]]) -> Mapping[str, type[Rule]]:
    """Return the rules by id, in the order of their ids. Errors: `ConfigurationError` if two have the same id."""
    found: dict[str, type[Rule]] = {}
    problems = []
    for rule in rules:
        other = found.setdefault(rule.rule_id, rule)
        if other is not rule:
            what = f"is the id of two rules: {_place(other)} and {_place(rule)}."
            problems.append(Problem(where=rule.rule_id, what=what, fix="Rename one of them."))
    if problems:
        raise ConfigurationError(problems, subject="The catalogue of rules")
    return MappingProxyType(dict(sorted(found.items())))


def _names_of_modules() -> Iterator[str]:
    """Yield the modules of rules: those of the core, then those of products."""
    for room in (trackside.rules.__name__, *RULES):
        folder = Path(trackside.rules.__path__[0]).parent.joinpath(*room.split(".")[1:])
        for found in pkgutil.walk_packages([str(folder)], prefix=f"{room}."):
            if found.name != __name__:
                yield found.name


def _rule_id_of(module: str) -> str:
    """Return the id of the rule in a module: the file's name, whatever the preset."""
    return module.rpartition(".")[2].replace("_", "-")


def _plugins() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points  # brings `email`, `socket` and more

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _load_plugins(points: Iterable[EntryPoint]) -> Mapping[str, type[Rule]]:
    rules: dict[str, type[Rule]] = {}
    problems = []
    for point in sorted(points, key=lambda point: point.name):
        try:
            rules[point.name] = _load_plugin(point)
        except Exception as error:  # noqa: BLE001  whatever a stranger's module raises on import is its problem, named here
            owner = f" of {point.dist.name} {point.dist.version}" if point.dist else ""
            what = f"The rule {point.value!r}{owner} cannot be loaded: {type(error).__name__}: {error}"
            fix = "Mend or uninstall that package."
            problems.append(Problem(where=f"{ENTRY_POINTS}: {point.name}", what=what, fix=fix))
    if problems:
        raise ConfigurationError(problems, subject="The catalogue of rules")
    return rules


def _load_plugin(point: EntryPoint) -> type[Rule]:
    rule = point.load()
    if not is_rule(rule):
        raise TypeError("it is not a rule: a frozen dataclass that inherits trackside.rules.rule.Rule.")
    if rule.rule_id != point.name:
        raise ValueError(f"its id is {rule.rule_id!r}, but the entry point is named {point.name!r}.")
    if rule.rule_id in _built_in():
        raise ValueError(f"Trackside has a rule of that id: {_place(_built_in()[rule.rule_id])}.")
    return rule


def _place(rule: type[Rule]) -> str:
    return f"{rule.__module__}.{rule.__qualname__}"


def _entry(rule: RuleDescription) -> dict[str, object]:
    return {
        "rule": rule.rule_id,
        **({"code": rule.code} if rule.code else {}),
        "summary": rule.summary,
        "watches": list(rule.watches),
        "save_interval": rule.save_interval,
        "severity": rule.severity.value,
        "since": rule.since,
        "life_cycle": rule.life_cycle.value,
        "parameters": [asdict(parameter) for parameter in rule.parameters],
        **({"is_asked_for": True} if rule.is_asked_for else {}),
        **({} if rule.needs is None else {"needs": collections_document(rule.needs)}),
        **({"presets": {preset: _entry(other) for preset, other in rule.presets.items()}} if rule.presets else {}),
    }
