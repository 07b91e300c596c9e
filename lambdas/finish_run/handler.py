"""Mark the end of a run: its training job has ended, in any way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.finish_run.logic import MarkEnd, decide
from lambdas.finish_run.settings import FinishRunSettings
from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from trackside.contracts.event import read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    decision = decide(read_training_job_state_change(event), FinishRunSettings.from_environment())
    yield decision if isinstance(decision, Nothing) else _mark(decision)


def _mark(end: MarkEnd) -> Done | Nothing:
    try:
        client("s3").put_object(Bucket=end.bucket, Key=end.key, Body=b"", IfNoneMatch="*")
    except ClientError as error:
        # It lies there, or is put there by another delivery at this moment.
        if code_of(error) not in {"PreconditionFailed", "ConditionalRequestConflict"}:
            raise
        return Nothing(f"s3://{end.bucket}/{end.key} lies there.")
    return Done(f"Marked the end of the run: s3://{end.bucket}/{end.key}.")
