"""What start_evaluation reads of a run before it starts what judges it."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lambdas.shared.decisions import Nothing
from lambdas.start_evaluation.run_request import read_request
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation

RUN = RunLocation("s3://runs-bucket/team/digits-01")
REQUEST = RuleRequest((RuleConfiguration("Mine", source="s3://rules-bucket/approved/mine.py"),))


def test_the_request_that_lies_in_the_run(account: Any) -> None:
    body = REQUEST.to_json().encode()
    boto3.client("s3").put_object(Bucket=account.bucket, Key="team/digits-01/rule-request.json", Body=body)
    assert read_request(RUN) == REQUEST


def test_none_asks_for_no_custom_rule(account: Any) -> None:
    assert read_request(RUN) == RuleRequest(())


def test_one_that_is_wrong_is_left_to_the_evaluator_and_said(account: Any) -> None:
    boto3.client("s3").put_object(Bucket=account.bucket, Key="team/digits-01/rule-request.json", Body=b'{"rules": 1}')
    answer = read_request(RUN)
    assert isinstance(answer, Nothing)
    assert answer.surprising


def test_what_may_work_later_is_raised(account: Any) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        read_request(RunLocation("s3://runs-buckets/team/digits-01"))
