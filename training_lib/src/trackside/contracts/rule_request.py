"""The rule request: rules to evaluate, their parameters, and the actions on an issue.

A rule request lies in the run (`rule-request.json`), so that parameters have no length limit and every reader of the
run sees the request. Parameters are texts, as in AWS's `RuleParameters`.

A rule of the user's own is named by a Python file and a class in it, in either of two ways:

    {"rule": "LargeGradients", "source": "rules/mine.py", "parameters": {"threshold": "10"}}
    {"parameters": {"rule_to_invoke": "LargeGradients", "source_s3_uri": "s3://bucket/mine.py", "threshold": "10"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.action import Action
from trackside.contracts.action_terms import NO_TERMS, ActionTerms, actions_document, read_actions_with_terms
from trackside.contracts.capture_request import CollectionRequest, collections_document, read_collection
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.fields import Fields, parse_json, to_json

MOST_NAME_CHARACTERS = 256  # AWS's limit of RuleConfigurationName; the table's keys hold at most four times that
MOST_BYTES = 1 << 20  # of a request: one of 20 rules has some kilobytes
MOST_RULES = 200  # each is judged at each of its steps, and checked before an evaluator starts
VERSION = 1

# Presets: our own; AWS's developer guide; the defaults that AWS's Python SDK sent.
CALIBRATED, AWS_DOCS, AWS_SDK = PRESETS = ("calibrated", "aws-docs", "aws-sdk")

# Names in SageMaker's RuleParameters of a custom rule's file and class.
SOURCE_PARAMETER = "source_s3_uri"
CLASS_PARAMETER = "rule_to_invoke"


@dataclass(frozen=True)
class CustomRule:
    """A rule of the user's own: the class `class_name` of the Python file at `source`, a path or an s3:// URI."""

    source: str
    class_name: str
    parameters: Mapping[str, str]


@dataclass(frozen=True)
class RuleConfiguration:
    """One rule with its parameters and actions.

    rule_id      id of the rule; with `source`, the name of a class in that file
    name         AWS's RuleConfigurationName; the rule's id by default
    parameters   values by name, as texts
    actions      actions to carry out on an issue
    terms        terms of the actions, where they differ from the deployment's
    source       Python file of the rule, a path or an s3:// URI; "" for a rule of the catalogue
    collections  collections to save for a rule from a file, because its code does not declare them; empty:
                 `rule_catalogue.CUSTOM_RULE_CAPTURE`
    preset       definition of the rule: Trackside's own (`calibrated` or ""), or as Amazon documents it (`aws-docs`,
                 `aws-sdk`)
    """

    rule_id: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    terms: ActionTerms = NO_TERMS
    source: str = ""
    collections: tuple[CollectionRequest, ...] = ()
    preset: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.rule_id)

    @property
    def custom(self) -> CustomRule | None:
        """The user's own class, named in either way; None for a rule of the catalogue."""
        if self.source:
            return CustomRule(self.source, self.rule_id, self.parameters)
        source = self.parameters.get(SOURCE_PARAMETER, "").strip()
        if not source:
            return None
        own = {k: v for k, v in self.parameters.items() if k not in {SOURCE_PARAMETER, CLASS_PARAMETER}}
        return CustomRule(source, self.parameters.get(CLASS_PARAMETER, "").strip(), own)


@dataclass(frozen=True)
class RuleRequest:
    """All rules that judge one run. Names of configurations are unique."""

    rules: tuple[RuleConfiguration, ...]

    def to_json(self) -> str:
        """Return one line of JSON."""
        return to_json(
            {
                "version": VERSION,
                "rules": [
                    {
                        "rule": rule.rule_id,
                        "name": rule.name,
                        "parameters": dict(rule.parameters),
                        "actions": actions_document(rule.actions, rule.terms),
                        **({"source": rule.source} if rule.source else {}),
                        **({"preset": rule.preset} if rule.preset else {}),
                        **({"collections": collections_document(rule.collections)} if rule.collections else {}),
                    }
                    for rule in self.rules
                ],
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> RuleRequest:
        """Return the request in a text that `to_json` wrote.

        Rules and parameters are checked by the catalogue, not here.

        Args:
            text: The JSON.

        Raises:
            ConfigurationError: The text is wrong. Lists every problem at once.
        """
        subject = "The rule request"
        if len(text) > MOST_BYTES:
            _refuse(f"has more than {MOST_BYTES:,} bytes", "Put long values into fewer rules.")
        document = parse_json(text, subject=subject)
        rules = document.get("rules") if isinstance(document, dict) else None
        if isinstance(rules, list) and len(rules) > MOST_RULES:
            _refuse(f"has {len(rules):,} rules, at most {MOST_RULES} are taken", "Leave the least useful ones out.")
        fields = Fields(document, where="")
        version = fields.integer("version", VERSION)
        if version > VERSION:
            fields.problem("version", f"is {version}; this Trackside reads up to {VERSION}.", "Update Trackside.")
        rules = fields.items("rules", _read_rule)
        seen: set[str] = set()
        for rule in rules:
            if rule.name and rule.name in seen:
                fields.problem("rules", f"two configurations are named {rule.name!r}.", "Give each its own `name`.")
            seen.add(rule.name)
        fields.reject_unknown()
        fields.finish(subject=subject)
        return cls(rules)


def _refuse(what: str, fix: str) -> None:
    raise ConfigurationError([Problem("rule-request.json", f"{what}.", fix)], subject="The rule request")


def _read_rule(fields: Fields) -> RuleConfiguration:
    raw = fields.mapping("parameters", {})
    parameters = {str(key): value if isinstance(value, str) else _as_text(value) for key, value in raw.items()}
    named = parameters.get(CLASS_PARAMETER, "").strip() if SOURCE_PARAMETER in parameters else ""
    rule_id = fields.text("rule", named or None)
    name = fields.text("name", rule_id)
    if len(name) > MOST_NAME_CHARACTERS:
        why = f"has {len(name)} characters, at most {MOST_NAME_CHARACTERS} are taken."
        fields.problem("name", why, f"Shorten {name[:40] + '…'!r}.")
    actions, terms = read_actions_with_terms(fields, "actions")
    source = fields.text("source", "")
    if source and SOURCE_PARAMETER in parameters:
        fields.problem("source", f"stands beside the parameter {SOURCE_PARAMETER!r}.", "Name the rule's file once.")
    collections = fields.items("collections", read_collection, required=False)
    preset = fields.text("preset", "")
    if preset and preset not in PRESETS:
        fields.problem("preset", f"{preset!r} is not known.", did_you_mean(preset, PRESETS))
    fields.reject_unknown()
    return RuleConfiguration(
        rule_id=rule_id,
        name=name,
        parameters=parameters,
        actions=actions,
        terms=terms,
        source=source,
        collections=collections,
        preset=preset,
    )


def _as_text(value: object) -> str:
    """Return `"true"` for `True`, `"10"` for `10`: notebooks write values, AWS carries texts."""
    return str(value).lower() if isinstance(value, bool) else str(value)
