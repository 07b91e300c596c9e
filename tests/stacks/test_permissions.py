"""The table of permissions: whole, current, with a reason for each; and what no policy says: secrets, public access."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docs import permissions as docs
from lambdas.start_evaluation.logic import StartEvaluation, decide, decide_custom
from lambdas.start_evaluation.settings import StartEvaluationSettings
from stacks.permissions import Permission, read_permissions
from tests.lambda_settings import made
from trackside.contracts.event import TrainingJob, TrainingJobStateChange
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation

SECRET = re.compile(
    r"(secret|password|passwd|token|credential|private_?key|api_?key|access_?key|webhook)"
    r"|resolve:(secretsmanager|ssm-secure)|AKIA[0-9A-Z]{16}|-----BEGIN|eyJ[\w-]+\.|(?<![\w/+])[A-Za-z0-9/+]{40}(?![\w/+])",
    re.IGNORECASE,
)


@pytest.fixture(scope="session")
def table(synthesized: Path) -> list[Permission]:
    return read_permissions(synthesized)


def statements(value: Any) -> Iterator[Mapping[str, Any]]:
    """A walk of its own, so that one that loses its way is found out."""
    if isinstance(value, dict):
        yield from [value] if {"Effect", "Action"} <= set(value) else []
        for inner in value.values():
            yield from statements(inner)
    if isinstance(value, list):
        for inner in value:
            yield from statements(inner)


def test_every_statement_stands_in_the_table(table: list[Permission], resources: Mapping[str, Any]) -> None:
    def actions_of(statement: Mapping[str, Any]) -> tuple[str, ...]:
        action = statement["Action"]
        return tuple(action) if isinstance(action, list) else (action,)

    expected = sorted(
        (body["Type"], one["Effect"], one.get("Sid", ""), actions_of(one))
        for body in resources.values()
        for one in statements(body["Properties"])
    )
    assert len(expected) > 100
    assert sorted((one.kind, one.effect, one.name, one.actions) for one in table) == expected


def test_every_statement_has_its_reason(table: list[Permission]) -> None:
    assert [(one.holder, one.name, one.actions) for one in table if not one.why] == []


def test_every_statement_of_ours_has_a_name_of_its_own(table: list[Permission]) -> None:
    """IAM refuses a policy in which two statements are called the same."""
    named = [(one.holder, one.name) for one in table if one.is_of_role and one.name]
    assert len(named) == len(set(named)) > 30


def test_no_statement_means_all_actions_or_all_resources_without_saying_why(table: list[Permission]) -> None:
    for one in table:
        if one.effect == "Deny" or one.kind == "AWS::KMS::Key":
            continue
        assert not any("*" in action for action in one.actions), one
        if "*" in one.resources:
            assert one.condition or re.search(r"knows? no resources", one.why), one


def test_the_page_is_current(table: list[Permission]) -> None:
    assert docs.PAGE.read_text(encoding="utf-8") == docs.page(table), f"Mend with: {docs.COMMAND}"


def test_a_permission_more_makes_the_page_stale(table: list[Permission]) -> None:
    more = replace(table[0], actions=(*table[0].actions, "s3:DeleteObject"))
    assert docs.page([more, *table[1:]]) != docs.page(table)


def test_names_stand_where_the_template_has_ids(table: list[Permission]) -> None:
    page = docs.page(table)
    assert "Fn::" not in page
    assert "ExportsOutput" not in page
    tagged = "`aws:ResourceTag/trackside:run Null false`"
    assert f"| `sagemaker:StopTrainingJob` | `sagemaker:training-job/*` | {tagged} |" in page


def literal(value: Any) -> str:
    """What stands in the template itself, not the names of what the deployment fills in."""
    if isinstance(value, Mapping):
        return "".join(part for part in value.get("Fn::Join", ["", []])[1] if isinstance(part, str))
    return str(value)


def looks_secret(name: str, value: Any) -> bool:
    text = re.sub(r"arn:[\w:/-]+", "", literal(value))
    return bool(SECRET.search(name) or SECRET.search(text))


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        pytest.param("SLACK_WEBHOOK", "https://hooks.example.com/x", True, id="by its name"),
        pytest.param("DB_PASSWORD", "", True, id="by its name, even empty"),
        pytest.param("SETTING", "AKIAIOSFODNN7EXAMPLE", True, id="an access key"),
        pytest.param("SETTING", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", True, id="a secret key"),
        pytest.param(
            "SETTING", {"Fn::Join": ["", ["{{resolve:ssm-secure:", {"Ref": "X"}, "}}"]]}, True, id="reference"
        ),
        pytest.param("SETTING", "-----BEGIN PRIVATE KEY-----", True, id="a private key"),
        pytest.param("TRACKSIDE_RUN", "s3://runs-bucket/teams/vision/digits-01", False, id="a place"),
        pytest.param("TRACKSIDE_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:issues", False, id="an ARN"),
        pytest.param("TRACKSIDE_STOPS_PER_HOUR", "20", False, id="a number"),
    ],
)
def test_knows_a_secret_when_it_sees_one(name: str, value: Any, answer: bool) -> None:
    assert looks_secret(name, value) is answer


def test_no_function_has_a_secret_in_its_environment(resources: Mapping[str, Any]) -> None:
    """Whoever may read a function's configuration sees its variables."""
    variables = {
        (resource, name): value
        for resource, body in resources.items()
        if body["Type"] == "AWS::Lambda::Function"
        for name, value in body["Properties"]["Environment"]["Variables"].items()
    }
    assert len(variables) > 30
    found = [key for key, value in variables.items() if looks_secret(key[1], value)]
    assert found == [], "read a secret when it is used, and call the field of its name `..._from`, as slack_header_from"


def test_no_processing_job_has_a_secret_in_its_environment() -> None:
    """State events carry it in full, to whoever may listen to the default bus."""
    place = "s3://rules-bucket/approved"
    settings = made(
        StartEvaluationSettings,
        image_uri="image:1",
        role_arn="arn:aws:iam::123456789012:role/evaluator",
        run_bucket="runs-bucket",
        event_bus="trackside",
        custom_rules_from=place,
        custom_rule_image_uri="image:2",
        custom_rule_role_arn="arn:aws:iam::123456789012:role/custom",
    )
    job = TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01")
    run = RunLocation("s3://runs-bucket/digits-01")
    change = TrainingJobStateChange(job, "InProgress", "Training", {"trackside:run": run.uri})
    rule = RuleConfiguration("Mine", name="mine", source=f"{place}/mine.py")
    started = [decide(change, settings), *decide_custom(job, run, RuleRequest((rule,)), settings)]
    environments = [start.request["Environment"] for start in started if isinstance(start, StartEvaluation)]
    assert [len(each) > 3 for each in environments] == [True, True]
    assert [name for each in environments for name, value in each.items() if looks_secret(name, value)] == []


def test_nothing_is_public(resources: Mapping[str, Any]) -> None:
    """Who is let in by policies: test_policies.test_no_one_from_outside_the_account_is_let_in.

    The balancer of the dashboard is reached from outside, by people who sign in: test_dashboard_stack.
    """
    doors = ("AWS::Lambda::Url", "AWS::Lambda::Permission", "AWS::ApiGateway::RestApi", "AWS::ApiGatewayV2::Api")
    assert [name for name, body in resources.items() if body["Type"] in doors] == []
    buckets = [body["Properties"] for body in resources.values() if body["Type"] == "AWS::S3::Bucket"]
    assert len(buckets) == 3  # runs, their access logs, answers of Athena
    for bucket in buckets:
        blocked = bucket["PublicAccessBlockConfiguration"]
        assert set(blocked.values()) == {True}
        assert len(blocked) == 4
        assert "AccessControl" not in bucket
        assert bucket["BucketEncryption"]
