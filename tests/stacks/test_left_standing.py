"""A stack that a setting does not ask for any more is named with its price and its end, and no other stack is."""

from __future__ import annotations

import json
from collections.abc import Callable

import boto3
import pytest
from moto import mock_aws

from stacks.left_standing import main
from stacks.optional_stacks import PRICES, STACK_OF

NOTHING = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
Said = Callable[..., str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """`said(standing, *words)`: what is printed after `.ci/cdk WORDS` in an account with these stacks."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_REGION", raising=False)

    def run(standing: tuple[str, ...], *words: str) -> str:
        with mock_aws():
            for name in standing:
                boto3.client("cloudformation").create_stack(StackName=name, TemplateBody=NOTHING)
            assert main(words) == 0
        return capsys.readouterr().err

    return run


DASHBOARD = (
    "-c trackside:team_dashboard_host=runs.example.com "
    "-c trackside:team_dashboard_certificate_arn=arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222"
)


@pytest.mark.parametrize(
    ("standing", "words", "named"),
    [
        pytest.param((), "deploy --all", (), id="nothing stands"),
        pytest.param(("TracksideStorage",), "deploy --all", (), id="a stack that is always asked for"),
        pytest.param(("TracksideDashboard",), "deploy --all", ("TracksideDashboard",), id="the dashboard was left"),
        pytest.param(("TracksideDashboard",), f"deploy --all {DASHBOARD}", (), id="the dashboard is asked for"),
        pytest.param(("TracksideQuestions",), "deploy --all -c trackside:questions=true", (), id="questions are"),
        pytest.param(
            ("TracksideQuestions", "TracksideHub"),
            "deploy --all --context trackside:questions=false",
            ("TracksideQuestions", "TracksideHub"),
            id="two were left",
        ),
        pytest.param(("TracksideQuestions",), "deploy -c trackside:environment=staging", (), id="another deployment's"),
        pytest.param(
            ("Trackside-staging-Questions",),
            "deploy -c trackside:environment=staging",
            ("Trackside-staging-Questions",),
            id="this deployment's",
        ),
        pytest.param(("TracksideHub",), "deploy -c trackside:hub_account=123456789012", (), id="a spoke"),
    ],
)
def test_names_what_is_left(said: Said, standing: tuple[str, ...], words: str, named: tuple[str, ...]) -> None:
    lines = said(standing, *words.split()).splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(named)
    for line in lines:
        assert line.endswith(f"aws cloudformation delete-stack --stack-name {line.split()[0]}")
        assert any(price in line for price in PRICES.values())


def test_each_has_a_price() -> None:
    assert set(PRICES) == set(STACK_OF)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param("deploy", "region", id="no region"),
        pytest.param("deploy -c trackside:question=true", "Did you mean 'questions'?", id="settings that are wrong"),
    ],
)
def test_a_deployment_does_not_fail_by_it(said: Said, monkeypatch: pytest.MonkeyPatch, words: str, why: str) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    text = said((), *words.split())
    assert "is not known: " in text
    assert why in text
