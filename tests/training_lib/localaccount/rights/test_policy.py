"""IAM's decisions, as https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html states
them and the pages that each row names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from trackside_localaccount.rights.conditions import UnknownConditionError, arn_matches, conditions_hold
from trackside_localaccount.rights.policy import Policies, Principal, Question, decide, parse_policy

ACCOUNT, OTHER = "123456789012", "210987654321"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/worker"
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/worker/one"
WORKER = Principal(SESSION, ACCOUNT, ROLE)
EVENTS = Principal("events.amazonaws.com", service="events.amazonaws.com")
OBJECT = "arn:aws:s3:::bucket/a/b.txt"
CONTEXT = {
    "aws:principalarn": (ROLE,),
    "aws:securetransport": ("true",),
    "aws:sourcearn": ("arn:aws:events:us-east-1:123456789012:rule/bus/one",),
    "aws:resourcetag/team": ("vision",),
    "aws:tagkeys": ("team", "cost"),
    "s3:max-keys": ("10",),
    "aws:currenttime": ("2026-11-30T09:00:00+00:00",),
    "aws:sourceip": ("10.1.2.3",),
    "events:source": ("trackside",),
}


def allow(action: Any = "s3:GetObject", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: Any = "s3:GetObject", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {**allow(action, resource, **more), "Effect": "Deny"}


def says(policies: Policies, *, principal: Principal = WORKER, action: str = "s3:GetObject") -> str:
    return decide(Question(principal, action, OBJECT, CONTEXT), policies).reason


def boundary(*statements: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return (("permissions boundary", statements),)


ALLOWED: Sequence[Any] = [
    pytest.param(Policies(identity=(allow(),)), id="by the identity"),
    pytest.param(Policies(identity=(allow("s3:Get*"),)), id="by a wildcard of the action"),
    pytest.param(Policies(identity=(allow("S3:GETOBJECT"),)), id="in capitals"),
    pytest.param(Policies(identity=(allow(["s3:PutObject", "s3:GetObject"]),)), id="by one of two actions"),
    pytest.param(Policies(identity=(allow(resource="arn:aws:s3:::bucket/*"),)), id="by a wildcard of the resource"),
    pytest.param(Policies(identity=(allow(resource="arn:aws:s3:::bucket/?/b.txt"),)), id="by a question mark"),
    pytest.param(Policies(identity=({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"},)), id="NotAction"),
    pytest.param(
        Policies(identity=({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::else/*"},)),
        id="NotResource",
    ),
    pytest.param(Policies(identity=(deny(resource="arn:aws:s3:::else/*"), allow())), id="a denial of something else"),
    pytest.param(Policies(identity=(deny(Condition={"Bool": {"aws:SecureTransport": "false"}}), allow())), id="TLS"),
    pytest.param(Policies(identity=(allow(),), limits=boundary(allow("s3:*"))), id="within a boundary"),
    pytest.param(Policies(resource=(allow(Principal={"AWS": SESSION}),)), id="by the resource, to the session"),
    pytest.param(Policies(resource=(allow(Principal={"AWS": ROLE}),)), id="by the resource, to the role"),
    pytest.param(Policies(resource=(allow(Principal="*"),)), id="by the resource, to everybody"),
    pytest.param(
        Policies(resource=(allow(Principal={"AWS": SESSION}),), limits=boundary(allow("sqs:*"))),
        id="to a session, which no boundary limits",
    ),
    pytest.param(
        Policies(identity=(allow(),), resource=(allow(Principal={"AWS": ACCOUNT}),), resource_must_allow=True),
        id="a key whose account hands over",
    ),
    pytest.param(
        Policies(identity=(allow(),), resource=(allow(Principal={"AWS": ROLE}),), is_own=False), id="both accounts"
    ),
]
REFUSED: Sequence[Any] = [
    pytest.param(Policies(), "no identity-based policy", id="by nothing"),
    pytest.param(Policies(identity=(allow("s3:PutObject"),)), "no identity-based", id="another action"),
    pytest.param(Policies(identity=(allow(resource="arn:aws:s3:::bucket"),)), "no identity-based", id="the bucket"),
    pytest.param(Policies(identity=(allow(resource="arn:aws:s3:::BUCKET/*"),)), "no identity", id="capitals count"),
    pytest.param(Policies(identity=(allow(), deny())), "explicit deny in an identity-based policy", id="a denial"),
    pytest.param(
        Policies(identity=(allow(),), resource=(deny(Principal="*"),)),
        "explicit deny in a resource-based policy",
        id="the resource denies",
    ),
    pytest.param(
        Policies(identity=(allow(),), limits=boundary(allow("sqs:*"))), "no permissions boundary", id="a boundary"
    ),
    pytest.param(
        Policies(identity=(allow(),), limits=boundary(allow("*"), deny())),
        "explicit deny in a permissions boundary",
        id="a boundary that denies",
    ),
    pytest.param(
        Policies(resource=(allow(Principal={"AWS": ROLE}),), limits=boundary(allow("sqs:*"))),
        "no permissions boundary",
        id="to a role, which its boundary limits",
    ),
    pytest.param(
        Policies(identity=(allow(),), resource=(allow(Principal={"AWS": OTHER}),), resource_must_allow=True),
        "no resource-based policy",
        id="a key of others",
    ),
    pytest.param(
        Policies(resource=(allow(Principal={"AWS": ACCOUNT}),)), "no identity-based policy", id="the account alone"
    ),
    pytest.param(Policies(identity=(allow(),), is_own=False), "no resource-based policy", id="another account's"),
    pytest.param(
        Policies(resource=(allow(Principal={"AWS": ROLE}),), is_own=False), "no identity-based", id="not one's own"
    ),
    pytest.param(
        Policies(resource=({"Effect": "Allow", "NotPrincipal": {"AWS": ROLE}, "Action": "*", "Resource": "*"},)),
        "no identity-based policy",
        id="NotPrincipal",
    ),
    pytest.param(
        Policies(identity=(allow(resource="arn:aws:s3:::${aws:username}/*"),)), "no identity", id="no such variable"
    ),
]


@pytest.mark.parametrize("policies", ALLOWED)
def test_is_allowed(policies: Policies) -> None:
    assert says(policies) == ""


@pytest.mark.parametrize(("policies", "reason"), REFUSED)
def test_is_refused(policies: Policies, reason: str) -> None:
    assert reason in says(policies)


RULE = {"ArnEquals": {"aws:SourceArn": "arn:aws:events:us-east-1:123456789012:rule/bus/one"}}
NO_RULE = {"ArnEquals": {"aws:SourceArn": "arn:aws:events:us-east-1:123456789012:rule/bus/two"}}


@pytest.mark.parametrize(
    ("statement", "is_allowed"),
    [
        pytest.param(allow(Principal={"Service": "events.amazonaws.com"}), True, id="named"),
        pytest.param(allow(Principal={"Service": "events.amazonaws.com"}, Condition=RULE), True, id="for this rule"),
        pytest.param(allow(Principal={"Service": ["sns.amazonaws.com", "events.amazonaws.com"]}), True, id="of two"),
        pytest.param(allow(Principal={"Service": "sns.amazonaws.com"}), False, id="another"),
        pytest.param(allow(Principal={"Service": "events.amazonaws.com"}, Condition=NO_RULE), False, id="other rule"),
        pytest.param(allow(Principal={"AWS": ACCOUNT}), False, id="an account is no service"),
    ],
)
def test_services_are_let_in_by_resources_only(statement: dict[str, Any], is_allowed: bool) -> None:
    policies = Policies(identity=(allow("*"),), resource=(statement,))
    assert (says(policies, principal=EVENTS) == "") is is_allowed


# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html, and
# reference_policies_condition-single-vs-multi-valued-context-keys.html for the quantifiers
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"StringEquals": {"events:source": "trackside"}}, True),
        ({"StringEquals": {"events:source": ["else", "trackside"]}}, True),
        ({"StringEquals": {"events:source": "Trackside"}}, False),
        ({"StringEqualsIgnoreCase": {"events:source": "TRACKSIDE"}}, True),
        ({"StringNotEquals": {"events:source": "else"}}, True),
        ({"StringNotEquals": {"events:source": ["else", "trackside"]}}, False),
        ({"StringLike": {"events:source": "track*"}}, True),
        ({"StringNotLike": {"events:source": "track*"}}, False),
        ({"StringEquals": {"events:detail-type": "x"}}, False),
        ({"StringNotEquals": {"events:detail-type": "x"}}, True),
        ({"StringEqualsIfExists": {"events:detail-type": "x"}}, True),
        ({"Null": {"events:detail-type": "true"}}, True),
        ({"Null": {"events:source": "true"}}, False),
        ({"Null": {"aws:ResourceTag/team": "false"}}, True),
        ({"Bool": {"aws:SecureTransport": "true"}}, True),
        ({"Bool": {"aws:SecureTransport": "false"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:events:*:123456789012:rule/bus/*"}}, True),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:*:one"}}, False),
        ({"ArnNotEquals": {"aws:PrincipalArn": [ROLE, "arn:aws:iam::1:role/x"]}}, False),
        ({"ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::1:role/x"}}, True),
        ({"NumericLessThanEquals": {"s3:max-keys": "10"}}, True),
        ({"NumericGreaterThan": {"s3:max-keys": "10"}}, False),
        ({"NumericEquals": {"s3:max-keys": "ten"}}, False),
        ({"DateGreaterThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}}, True),
        ({"DateLessThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}}, False),
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, True),
        ({"NotIpAddress": {"aws:SourceIp": ["10.0.0.0/8", "192.168.0.0/16"]}}, False),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["team", "cost", "other"]}}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["team"]}}, False),
        ({"ForAllValues:StringEquals": {"events:detail-type": ["x"]}}, True),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["team"]}}, True),
        ({"ForAnyValue:StringEquals": {"events:detail-type": ["x"]}}, False),
        ({"ForAnyValue:StringNotEquals": {"aws:TagKeys": ["team"]}}, True),
        ({"StringEquals": {"aws:ResourceTag/Team": "vision"}}, True),
        ({"StringEquals": {"sagemaker:TaggingAction": "CreateTrainingJob"}}, False),
        ({"StringEquals": {"events:source": "trackside"}, "Bool": {"aws:SecureTransport": "false"}}, False),
        ({"StringLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/${aws:ResourceTag/none, 'worker'}"}}, True),
    ],
    ids=str,
)
def test_conditions(condition: dict[str, Any], holds: bool) -> None:
    assert conditions_hold(condition, CONTEXT) is holds


@pytest.mark.parametrize(
    "condition", [{"StringAlmost": {"events:source": "x"}}, {"StringEquals": {"lambda:NewKey": "x"}}], ids=str
)
def test_a_condition_that_nobody_knows_is_no_answer(condition: dict[str, Any]) -> None:
    with pytest.raises(UnknownConditionError):
        says(Policies(identity=(allow(Condition=condition),)))
    assert says(Policies(identity=(allow(Condition=condition), allow()))) == "", "another statement speaks"


@pytest.mark.parametrize(
    ("pattern", "arn", "fits"),
    [
        ("arn:aws:sqs:*:123456789012:q-*", "arn:aws:sqs:us-east-1:123456789012:q-1", True),
        ("arn:aws:logs:us-east-1:1:log-group:g:*", "arn:aws:logs:us-east-1:1:log-group:g:log-stream:s", True),
        ("arn:aws:logs:us-east-1:1:log-group:g", "arn:aws:logs:us-east-1:1:log-group:g:log-stream:s", False),
        ("arn:aws:sqs:*:q", "arn:aws:sqs:us-east-1:123456789012:q", False),
        ("arn:aws:s3:::b/[a]*", "arn:aws:s3:::b/[a]b", True),
        ("arn:aws:s3:::b.c", "arn:aws:s3:::bxc", False),
    ],
)
def test_arns(pattern: str, arn: str, fits: bool) -> None:
    assert arn_matches(pattern, arn) is fits


def test_a_document_may_have_one_statement() -> None:
    assert parse_policy('{"Statement": {"Effect": "Allow", "Action": "*"}}') == ({"Effect": "Allow", "Action": "*"},)
