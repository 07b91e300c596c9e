"""What a call of AWS comes to when AWS says no, and what a user of `trackside aws` reads then."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ProfileNotFound,
    ReadTimeoutError,
    SSOTokenLoadError,
)
from click.testing import CliRunner

from trackside.cli import main
from trackside.cli.terminal.failure import NOT_FOUND, REMOTE, USAGE, exit_code_of
from trackside.cloud import calls
from trackside.cloud.calls import Calls
from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    LocationNotFoundError,
    StorageUnavailableError,
)

WHO = "aws sts get-caller-identity"


def refusal(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "DescribeStacks")


class Refusing:
    """A client of any service."""

    meta = SimpleNamespace(region_name="us-east-1")

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> None:
            raise self._error

        return call


@pytest.mark.parametrize(
    ("error", "kind", "code", "advice"),
    [
        pytest.param(refusal("AccessDenied"), AccessDeniedError, 4, WHO, id="denied"),
        pytest.param(refusal("AccessDeniedException"), AccessDeniedError, 4, WHO, id="denied, as JSON APIs say it"),
        pytest.param(refusal("AuthorizationError"), AccessDeniedError, 4, WHO, id="denied, as SNS says it"),
        pytest.param(refusal("ExpiredToken"), AccessDeniedError, 4, WHO, id="expired"),
        pytest.param(refusal("ExpiredTokenException"), AccessDeniedError, 4, WHO, id="expired, as JSON APIs say it"),
        pytest.param(refusal("RequestExpired"), AccessDeniedError, 4, WHO, id="the clock is wrong"),
        pytest.param(refusal("InvalidClientTokenId"), AccessDeniedError, 4, WHO, id="no such key"),
        pytest.param(refusal("UnrecognizedClientException"), AccessDeniedError, 4, WHO, id="no such key, in JSON"),
        pytest.param(refusal("SignatureDoesNotMatch"), AccessDeniedError, 4, WHO, id="a wrong secret"),
        pytest.param(refusal("InvalidSignatureException"), AccessDeniedError, 4, WHO, id="a wrong secret, in JSON"),
        pytest.param(NoCredentialsError(), AccessDeniedError, 4, "aws configure", id="no credentials"),
        pytest.param(
            CredentialRetrievalError(provider="sso", error_msg="x"), AccessDeniedError, 4, "aws configure", id="a role"
        ),
        pytest.param(SSOTokenLoadError(error_msg="x"), AccessDeniedError, 4, "aws configure", id="not logged in"),
        pytest.param(NoRegionError(), ConfigurationError, 2, "AWS_REGION", id="no region"),
        pytest.param(ProfileNotFound(profile="x"), ConfigurationError, 2, "AWS_PROFILE", id="no such profile"),
        pytest.param(refusal("Throttling"), StorageUnavailableError, 4, "again in a while", id="busy"),
        pytest.param(
            EndpointConnectionError(endpoint_url="x"), StorageUnavailableError, 4, "again in a while", id="no network"
        ),
        pytest.param(
            ReadTimeoutError(endpoint_url="x"), StorageUnavailableError, 4, "again in a while", id="no answer"
        ),
        pytest.param(
            refusal("ValidationError", "Stack with id TracksideStorage does not exist"),
            LocationNotFoundError,
            3,
            "AWS_REGION",
            id="no deployment",
        ),
        pytest.param(
            refusal("ValidationException", "Requested resource not found."),
            LocationNotFoundError,
            3,
            "AWS_REGION",
            id="no such job of SageMaker",
        ),
    ],
)
def test_what_aws_refuses_is_said_with_what_would_help(
    error: BotoCoreError | ClientError, kind: type[Exception], code: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(kind):
        Calls(lambda _: Refusing(error)).call("cloudformation", "describe_stacks")
    monkeypatch.delenv("TRACKSIDE_TABLE", raising=False)
    monkeypatch.setattr(calls, "_connect", lambda _: Refusing(error))
    result = CliRunner().invoke(main, ["aws", "status"])
    assert (result.exit_code, result.stdout) == (code, "")
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("  Try: ")
    assert advice in result.stderr
    assert "ls -ld" not in result.stderr
    assert "runs of this folder" not in result.stderr


@pytest.fixture
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
    variables: dict[str, str], region: str, nothing_is_set: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Calls().region == region


def test_without_a_region_it_says_which_variable(nothing_is_set: None) -> None:
    with pytest.raises(ConfigurationError, match=r"export AWS_REGION=") as caught:
        Calls().call("cloudformation", "describe_stacks")
    assert exit_code_of(caught.value) == USAGE


def test_without_credentials_it_does_not_speak_of_the_network(
    nothing_is_set: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    with pytest.raises(AccessDeniedError, match="Unable to locate credentials") as caught:
        Calls().call("cloudformation", "describe_stacks")
    assert "AWS_PROFILE" in caught.value.advice
    assert exit_code_of(caught.value) == REMOTE != NOT_FOUND


def test_the_library_knows_no_region_better_than_boto3(nothing_is_set: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    if boto3.session.Session().region_name is not None:
        pytest.fail("boto3 reads AWS_REGION now: environment.aws_region is no longer needed")
