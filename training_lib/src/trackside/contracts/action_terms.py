"""Terms of an action for one rule, in place of the deployment's settings.

In a rule request an action is its name, or an object of one name with its terms:

    {"rule": "exploding-tensor", "actions": ["Notify", {"StopTraining": {"after_findings": 2, "veto_minutes": 15}}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.errors import did_you_mean
from trackside.contracts.fields import Fields
from trackside.contracts.stored_fields import Kind


@dataclass(frozen=True)
class ActionTerms:
    """Terms of one rule. Terms that are not given are the deployment's.

    given  (action, term, value), in the order given; each action declares its terms in `contracts/actions`
    """

    given: tuple[tuple[Action, str, int], ...] = ()

    def value(self, action: Action, term: str, default: int) -> int:
        """Return the term's value for the action, or `default` if the rule sets none."""
        return {(one, name): value for one, name, value in self.given}.get((action, term), default)

    def to_document(self) -> dict[str, dict[str, int]]:
        """Return `{"StopTraining": {"after_findings": 2}}`, or {} if no term is set."""
        document: dict[str, dict[str, int]] = {}
        for action, term, value in self.given:
            document.setdefault(action.value, {})[term] = value
        return document


NO_TERMS = ActionTerms()


def actions_document(actions: tuple[Action, ...], terms: ActionTerms) -> list[Any]:
    """Return the list of names and objects that `read_actions_with_terms` reads."""
    given = terms.to_document()
    return [{action.value: given[action.value]} if action.value in given else action.value for action in actions]


def read_actions_with_terms(fields: Fields, name: str) -> tuple[tuple[Action, ...], ActionTerms]:
    """Return the actions and their terms from a list of names and objects.

    An absent list has no actions. Mistakes become problems of `fields`.
    """
    actions: dict[Action, None] = {}
    terms: list[tuple[Action, str, int]] = []
    known = {action.value: action for action in Action}
    for entry in fields.anything_in(name):
        word, given = next(iter(entry.items())) if isinstance(entry, Mapping) and len(entry) == 1 else (entry, {})
        if not isinstance(word, str) or not isinstance(given, Mapping):
            fields.problem(name, f"must hold names, or objects of one name with its terms, but holds {entry!r}.")
        elif word not in known:
            fields.problem(name, f"{word!r} is not known.", did_you_mean(word, known))
        else:
            actions[known[word]] = None
            terms += _read_terms(fields, f"{name}.{word}", known[word], given)
    return tuple(actions), ActionTerms(tuple(terms))


def read_terms(fields: Fields, name: str) -> ActionTerms:
    """Return the terms in the object that `to_document` wrote. Names added by a newer version are ignored."""
    known = {action.value: action for action in Action}
    return ActionTerms(
        tuple(
            (known[word], term, value)
            for word, given in fields.mapping(name, {}).items()
            if word in known and isinstance(given, Mapping)
            for term, value in given.items()
            if term in known[word].unit.terms and isinstance(value, int) and not isinstance(value, bool)
        )
    )


TERMS = Kind(
    {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}}},
    lambda fields, name, absent: read_terms(fields, name),
    ActionTerms.to_document,
)
"""The terms of an event and of a verdict, as a stored field."""


def _read_terms(fields: Fields, where: str, action: Action, given: Mapping[str, Any]) -> list[tuple[Action, str, int]]:
    found = []
    for term, value in given.items():
        limits = action.unit.terms.get(term)
        if limits is None:
            fix = did_you_mean(term, action.unit.terms) if action.unit.terms else "It has none."
            fields.problem(where, f"{term!r} is no term of {action.value}.", fix)
        elif not isinstance(value, int) or isinstance(value, bool) or not limits[0] <= value <= limits[1]:
            fields.problem(f"{where}.{term}", f"must be a whole number, {limits[0]} to {limits[1]}, but is {value!r}.")
        else:
            found.append((action, term, value))
    return found
