"""Calls of AWS: where they go, and what is said when nobody can be asked."""

from __future__ import annotations

import os

import boto3
import pytest
from botocore.exceptions import (
    BotoCoreError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
)

from trackside.cli.terminal.failure import NOT_FOUND, REMOTE, USAGE, exit_code_of
from trackside.cloud.calls import Calls
from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    StorageUnavailableError,
    TracksideError,
)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:  # noqa: TID251  cleaning it
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        pytest.param({"AWS_REGION": "eu-west-1"}, "eu-west-1", id="the one that the CDK reads, and boto3 does not"),
        pytest.param({"AWS_DEFAULT_REGION": "eu-west-3"}, "eu-west-3", id="boto3's own"),
        pytest.param(
            {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-3"}, "eu-west-1", id="both, as the CDK"
        ),
        pytest.param({"AWS_REGION": " ", "AWS_DEFAULT_REGION": "eu-west-3"}, "eu-west-3", id="a blank one is none"),
    ],
)
def test_calls_go_where_the_deployment_went(
    variables: dict[str, str], region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Calls().region == region


def test_without_a_region_it_says_which_variable() -> None:
    with pytest.raises(ConfigurationError, match=r"export AWS_REGION=") as caught:
        Calls().ask("cloudformation", "describe_stacks")
    assert exit_code_of(caught.value) == USAGE


def test_without_credentials_it_does_not_speak_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    with pytest.raises(AccessDeniedError, match="Unable to locate credentials") as caught:
        Calls().ask("cloudformation", "describe_stacks")
    assert "AWS_PROFILE" in caught.value.advice
    assert exit_code_of(caught.value) == REMOTE != NOT_FOUND


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(NoCredentialsError(), AccessDeniedError, id="none"),
        pytest.param(PartialCredentialsError(provider="env", cred_var="secret"), AccessDeniedError, id="half of them"),
        pytest.param(ProfileNotFound(profile="nope"), AccessDeniedError, id="no such profile"),
        pytest.param(TokenRetrievalError(provider="sso", error_msg="expired"), AccessDeniedError, id="SSO is over"),
        pytest.param(EndpointConnectionError(endpoint_url="https://x"), StorageUnavailableError, id="no network"),
    ],
)
def test_what_can_be_mended_here_is_told_from_an_outage(error: BotoCoreError, kind: type[TracksideError]) -> None:
    def client(_: str) -> object:
        raise error

    with pytest.raises(kind, match="AWS cannot be"):
        Calls(client).ask("sts", "get_caller_identity")


def test_the_library_knows_no_region_better_than_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    if boto3.session.Session().region_name is not None:
        pytest.fail("boto3 reads AWS_REGION now: environment.aws_region is no longer needed")
