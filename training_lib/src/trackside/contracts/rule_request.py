"""Evaluate these rules with these parameters, then do this.

A rule request lies in the run (`rule-request.json`), so that parameters have no length limit and everyone who looks at
the run sees what was asked. Parameters travel as texts, as AWS's `RuleParameters` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.action import Action
from trackside.contracts.fields import Fields, parse_json, to_json

VERSION = 1


@dataclass(frozen=True)
class RuleConfiguration:
    """One rule as it was configured: AWS's RuleConfigurationName, which rule, its parameters, what to do."""

    rule_id: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.rule_id)


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
                        "actions": [action.value for action in rule.actions],
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
    rule_id = fields.text("rule")
    name = fields.text("name", rule_id)
    raw = fields.mapping("parameters", {})
    parameters = {str(key): value if isinstance(value, str) else _as_text(value) for key, value in raw.items()}
    actions = fields.choices("actions", Action, ())
    fields.reject_unknown()
    return RuleConfiguration(rule_id=rule_id, name=name, parameters=parameters, actions=actions)


def _as_text(value: object) -> str:
    """`True` -> `"true"`, `10` -> `"10"`: notebooks write parameters as values, AWS carries them as texts."""
    return str(value).lower() if isinstance(value, bool) else str(value)
