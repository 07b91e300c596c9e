"""IAM's decision about one request, from the policies that bear on it.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from trackside_localaccount.rights.conditions import (
    Context,
    UnknownConditionError,
    arn_matches,
    conditions_hold,
    fill_in,
    matches,
    values_of,
)


@dataclass(frozen=True)
class Principal:
    """The maker of a request: a role's session, a user, or a service. `account` is empty for a service."""

    arn: str
    account: str = ""
    role_arn: str = ""
    service: str = ""


@dataclass(frozen=True)
class Question:
    """A question: may `principal` do `action` with `resource`? `context` has the values that conditions read."""

    principal: Principal
    action: str
    resource: str
    context: Context = field(hash=False)


class Named(Enum):
    """How a policy of a resource names a principal."""

    NOT = 0
    BY_ACCOUNT = 1  # its account, which hands the decision to the policies of its own identities
    BY_ROLE = 2  # its role, of which limits still hold
    ITSELF = 3


Statement = Mapping[str, Any]
Policy = tuple[Statement, ...]


@dataclass(frozen=True)
class Policies:
    """All policies that bear on a question.

    Args:
        identity: Policies of the principal.
        limits: Policies of which each must allow too: a permissions boundary, and the policy of a session.
        resource: Policy of the resource; None if it has none.
        resource_must_allow: Without this policy's consent nothing is allowed, as for keys and for assuming a role.
        is_own: Principal and resource are of one account.
    """

    identity: Policy = ()
    limits: tuple[tuple[str, Policy], ...] = ()
    resource: Policy | None = None
    resource_must_allow: bool = False
    is_own: bool = True


@dataclass(frozen=True)
class Decision:
    """`reason`: AWS's words for a refusal, empty if the request is allowed."""

    reason: str = ""

    @property
    def is_allowed(self) -> bool:
        """True if no reason is against it."""
        return not self.reason


@lru_cache(maxsize=1024)
def parse_policy(document: str) -> Policy:
    """Return the statements of a policy document.

    Args:
        document: JSON text.

    Raises:
        ValueError: No JSON.
    """
    statements = json.loads(document or "{}").get("Statement", [])
    return tuple([statements] if isinstance(statements, dict) else statements)


def decide(question: Question, policies: Policies) -> Decision:
    """Return IAM's decision.

    Args:
        question: Question to decide.
        policies: All policies that bear on it.

    Raises:
        UnknownConditionError: A condition that nothing here can evaluate.
    """
    for kind, policy in _all(policies):
        if _any_applies(policy, question, "Deny", of_resource=kind == "resource-based policy"):
            return Decision(f"with an explicit deny in {'an' if kind.startswith('i') else 'a'} {kind}")
    return Decision(_missing(question, policies))


def _missing(question: Question, policies: Policies) -> str:
    """Return the first consent that a request lacks, in AWS's words; an empty text if it lacks none."""
    consent = consent_of(policies.resource or (), question)
    limits = [(kind, _any_applies(policy, question, "Allow")) for kind, policy in policies.limits]
    if question.principal.service:
        needed = [("resource-based policy", consent is Named.ITSELF)]
    elif policies.is_own and consent in {Named.BY_ROLE, Named.ITSELF}:
        needed = limits if consent is Named.BY_ROLE else []
    else:
        is_given = consent is not Named.NOT
        needed = [
            ("resource-based policy", is_given or not policies.resource_must_allow),
            ("identity-based policy", _any_applies(policies.identity, question, "Allow")),
            *limits,
            ("resource-based policy", is_given or policies.is_own),
        ]
    return next((f"because no {kind} allows the {question.action} action" for kind, given in needed if not given), "")


def consent_of(policy: Iterable[Statement], question: Question) -> Named:
    """Return how far the policy of a resource allows the request."""
    found = (
        named_in(each, question.principal) for each in policy if each["Effect"] == "Allow" and _is_about(each, question)
    )
    return max(found, key=lambda named: named.value, default=Named.NOT)


def named_in(statement: Statement, principal: Principal) -> Named:
    """Return how a statement of a resource's policy names a principal."""
    if "NotPrincipal" in statement:
        excluded = _named(statement["NotPrincipal"], principal)
        return Named.ITSELF if excluded is Named.NOT else Named.NOT
    return _named(statement.get("Principal", {}), principal)


def _named(element: Any, principal: Principal) -> Named:
    if element == "*" or "*" in values_of(element.get("AWS", ())):
        return Named.ITSELF
    if principal.service:
        return Named.ITSELF if principal.service in values_of(element.get("Service", ())) else Named.NOT
    names = values_of(element.get("AWS", ()))
    if principal.arn in names:
        return Named.ITSELF
    if principal.role_arn in names:
        return Named.BY_ROLE
    own_account = (principal.account, principal.arn.split(":")[1])
    return Named.BY_ACCOUNT if any(_is_account(name, *own_account) for name in names) else Named.NOT


def _is_account(name: str, account: str, partition: str) -> bool:
    return bool(account) and name in {account, f"arn:{partition}:iam::{account}:root"}


def _all(policies: Policies) -> Iterator[tuple[str, Policy]]:
    yield "identity-based policy", policies.identity
    yield from policies.limits
    if policies.resource:
        yield "resource-based policy", policies.resource


def _any_applies(policy: Policy, question: Question, effect: str, *, of_resource: bool = False) -> bool:
    """A condition that cannot be evaluated matters only where no other statement applies."""
    unknown: UnknownConditionError | None = None
    for statement in policy:
        try:
            if _applies(statement, question, effect, of_resource=of_resource):
                return True
        except UnknownConditionError as error:
            unknown = error
    if unknown is not None:
        raise unknown
    return False


def _applies(statement: Statement, question: Question, effect: str, *, of_resource: bool = False) -> bool:
    """True if a statement of that effect bears on the question."""
    if statement["Effect"] != effect or not _is_about(statement, question):
        return False
    return not of_resource or named_in(statement, question.principal) is not Named.NOT


def _is_about(statement: Statement, question: Question) -> bool:
    return (
        _has_action(statement, question.action)
        and _has_resource(statement, question)
        and conditions_hold(statement.get("Condition") or {}, question.context)
    )


def _has_action(statement: Statement, action: str) -> bool:
    if "NotAction" in statement:
        return not any(matches(each, action, ignore_case=True) for each in values_of(statement["NotAction"]))
    return any(matches(each, action, ignore_case=True) for each in values_of(statement["Action"]))


def _has_resource(statement: Statement, question: Question) -> bool:
    if "NotResource" in statement:
        return not _is_one_of(values_of(statement["NotResource"]), question)
    return "Resource" not in statement or _is_one_of(values_of(statement["Resource"]), question)


def _is_one_of(patterns: Sequence[str], question: Question) -> bool:
    filled = (fill_in(each, question.context) for each in patterns)
    return any(pattern == "*" or arn_matches(pattern, question.resource) for pattern in filled if pattern is not None)
