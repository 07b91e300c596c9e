"""Evaluate these rules with these parameters, then do this.

A rule request lies in the run (`rule-request.json`), so that parameters have no length limit and everyone who looks at
the run sees what was asked. Parameters travel as texts, as AWS's `RuleParameters` do.

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
from trackside.contracts.errors import did_you_mean
from trackside.contracts.fields import Fields, parse_json, to_json

MOST_NAME_CHARACTERS = 256  # of AWS's RuleConfigurationName; the table's keys hold no more than four times that
VERSION = 1

# In whose sense a rule judges: ours; as AWS's developer guide documents it; with what its Python SDK sent by default.
CALIBRATED, AWS_DOCS, AWS_SDK = PRESETS = ("calibrated", "aws-docs", "aws-sdk")

# What SageMaker's RuleParameters call the file and the class of a custom rule.
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
    """One rule as it was configured: AWS's RuleConfigurationName, which rule, its parameters, what to do.

    With `source`, a Python file (path or s3:// URI), `rule_id` is the name of a class in it. `collections` says what
    has to be saved for such a rule, which cannot be told from its code; empty: `rule_catalogue.CUSTOM_RULE_CAPTURE`.
    `terms` are on which the actions are carried out, where the deployment's are not meant.
    `preset` says in whose sense the rule judges: ours (`calibrated`, or empty), or as Amazon documents it.
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
        """The user's own class that is meant, named in either way; None for a rule of the catalogue."""
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
        """One line of JSON."""
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
        """Reads `to_json`'s text. Rules and parameters are checked against the catalogue, not here.

        Errors: `ConfigurationError` with every problem at once.
        """
        subject = "The rule request"
        fields = Fields(parse_json(text, subject=subject), where="")
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
    """`True` -> `"true"`, `10` -> `"10"`: notebooks write parameters as values, AWS carries them as texts."""
    return str(value).lower() if isinstance(value, bool) else str(value)
