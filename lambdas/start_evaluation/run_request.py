"""The rule request of a run, as far as starting its evaluators needs it."""

from __future__ import annotations

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import split_uri
from trackside.contracts.deployment import evaluator_ending
from trackside.contracts.deployment.evaluator_ending import EvaluatorEnding, read_ending
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import MOST_BYTES, RuleRequest
from trackside.contracts.run_layout import RULE_OUTPUT, RULE_REQUEST_KEY, RunLocation


def read_request(run: RunLocation) -> RuleRequest | Nothing:
    """Return the request. Errors: `ClientError` of S3, but an absent request counts as one without rules from files."""
    bucket, prefix = split_uri(run)
    try:
        answer = client("s3").get_object(Bucket=bucket, Key=f"{prefix}/{RULE_REQUEST_KEY}")
    except ClientError as error:
        if code_of(error) != "NoSuchKey":
            raise
        return RuleRequest(())
    try:
        return RuleRequest.from_json(answer["Body"].read(MOST_BYTES + 1))
    except ConfigurationError as error:
        return Nothing(f"{error} The evaluator reports the same, and judges nothing.", surprising=True)


def read_note(run: RunLocation, key: str) -> EvaluatorEnding | None:
    """Return the note of the run's evaluator about its end, at a key within `rule-output`. Errors: `ClientError`."""
    bucket, prefix = split_uri(run)
    try:
        answer = client("s3").get_object(Bucket=bucket, Key=f"{prefix}/{RULE_OUTPUT}/{key}")
    except ClientError as error:
        if code_of(error) != "NoSuchKey":
            raise
        return None
    return read_ending(answer["Body"].read(evaluator_ending.MOST_BYTES))


def mistakes_in(request: RuleRequest) -> str:
    """Return the mistakes that the catalogue of rules finds in the request; "" for none."""
    try:
        built_in_catalogue().check(request)
    except ConfigurationError as error:
        return str(error)
    return ""
