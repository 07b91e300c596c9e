"""What start_evaluation reads of a run: the note of an evaluator about its end."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lambdas.start_evaluation.run_request import read_note
from trackside.contracts.deployment.evaluator_ending import EndKind, EvaluatorEnding
from trackside.contracts.run_layout import RunLocation

RUN = RunLocation("s3://runs-bucket/digits-01")
NOTE = EvaluatorEnding("arn:digits@1", 1, EndKind.CONTINUED, "judged up to step 7")


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("key", ["ending.json", "exploding-tensor/ending.json"])
@pytest.mark.parametrize(
    ("content", "note"),
    [
        pytest.param(NOTE.to_json().encode(), NOTE, id="as the evaluator wrote it"),
        pytest.param(b"{", None, id="cut off"),
        pytest.param(None, None, id="it ended without a note"),
    ],
)
def test_the_note_of_an_evaluator_is_read(key: str, content: bytes | None, note: EvaluatorEnding | None) -> None:
    if content is not None:
        boto3.client("s3").put_object(Bucket="runs-bucket", Key=f"digits-01/rule-output/{key}", Body=content)
    assert read_note(RUN, key) == note


def test_a_note_that_may_not_be_read_is_no_missing_one(account: Any) -> None:
    boto3.client("s3").delete_bucket(Bucket=account.bucket)
    with pytest.raises(ClientError):
        read_note(RUN, "ending.json")
