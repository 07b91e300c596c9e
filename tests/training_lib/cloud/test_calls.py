"""What a call of AWS comes to when AWS says no, and what a user of `trackside aws` reads then."""

from __future__ import annotations

from typing import Any

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
        Calls(lambda _: Refusing(error)).ask("cloudformation", "describe_stacks")
    monkeypatch.delenv("TRACKSIDE_TABLE", raising=False)
    monkeypatch.setattr(calls, "_connect", lambda _: Refusing(error))
    result = CliRunner().invoke(main, ["aws", "status"])
    assert (result.exit_code, result.stdout) == (code, "")
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("  Try: ")
    assert advice in result.stderr
    assert "ls -ld" not in result.stderr
    assert "runs of this folder" not in result.stderr
