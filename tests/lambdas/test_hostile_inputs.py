"""What somebody may put into a name, a tag, an event or a message, tried on every function: nothing is done for it.

Whoever may create training jobs chooses names and tags; whoever may write a run chooses its request and its tensors.
Neither may reach another's run or job, break a function for others, or write a line into a log or a mail.
"""

from __future__ import annotations

import importlib
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

import lambdas
from tests.lambda_settings import made, settings_class

Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]
LogLines = Callable[[], list[dict[str, Any]]]

FUNCTIONS = sorted(
    path.parent.name
    for path in Path(lambdas.__file__ or "").parent.glob("*/handler.py")
    if path.parent.name != "shared"
)
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
EVIL = 'x\n{"level": "INFO"}\u202e\u2028\x1b[2J'

BODIES = [
    pytest.param("", id="nothing"),
    pytest.param("null", id="null"),
    pytest.param("[]", id="a list"),
    pytest.param('"text"', id="a text"),
    pytest.param("{}", id="an empty object"),
    pytest.param('{"detail": []}', id="a list of details"),
    pytest.param('{"detail": {"TrainingJobName": {"a": 1}}}', id="an object for a name"),
    pytest.param('{"detail": {"Tags": "trackside:run"}}', id="a text for tags"),
    pytest.param("[" * 200_000, id="as deep as the message is long"),
    pytest.param('{"detail": ' + "9" * 10_000 + "}", id="a number of ten thousand digits"),
    pytest.param('{"detail": {"TrainingJobName": NaN}}', id="no number"),
    pytest.param(json.dumps({"detail": {"TrainingJobName": "x" * 250_000}}), id="a quarter of a megabyte"),
    pytest.param(json.dumps({"id": EVIL, "detail": {"TrainingJobName": EVIL}}), id="lines in a name"),
    pytest.param('{"id": "\\ud800", "detail": {"TrainingJobName": "\\udfff"}}', id="halves of characters"),
]

TAGS = [
    pytest.param("s3://other-bucket/run", id="another bucket"),
    pytest.param("s3://runs-bucket@evil.example/run", id="a bucket that looks like ours"),
    pytest.param("s3://runs-bucket/../other/run", id="dots"),
    pytest.param("s3://runs-bucket/./run", id="a dot"),
    pytest.param("s3://runs-bucket/run?versionId=1", id="a query"),
    pytest.param("s3://runs-bucket/run\nTRACKSIDE_EVENT_BUS=x", id="a line"),
    pytest.param("s3://runs-bucket/run\u202e", id="right to left"),
    pytest.param("s3://runs-bucket/\u200brun", id="invisible"),
    pytest.param("s3://runs\u2010bucket/run", id="a hyphen that is none"),
    pytest.param("S3://RUNS-BUCKET/run", id="capitals"),
    pytest.param("https://runs-bucket.s3.amazonaws.com/run", id="an address"),
    pytest.param("file:///etc/passwd", id="a file"),
]

ARNS = [
    pytest.param("arn:aws:sagemaker:us-east-1:999999999999:training-job/digits-01", id="another account"),
    pytest.param("arn:aws:sagemaker:eu-west-1:123456789012:training-job/digits-01", id="another region"),
    pytest.param("arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01\n", id="a line break"),
    pytest.param("arn:aws:sagemaker:us-east-1:123456789012:training-job/*", id="an asterisk"),
    pytest.param("arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01/../x", id="a path"),
    pytest.param("arn:aws:sagemaker:us-east-1:123456789012:processing-job/digits-01", id="a processing job"),
    pytest.param("arn:aws:sagemaker:us-east-1:\u0661\u0662\u0663456789012:training-job/digits-01", id="other digits"),
    pytest.param(
        "arn:aws:sagemaker:us-east-1:123456789012:training-job/d\u0456gits-01", id="a letter that looks alike"
    ),
    pytest.param("digits-01", id="a name"),
    pytest.param("", id="nothing"),
]


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One environment that holds every function's settings."""
    for name in FUNCTIONS:
        for variable, value in made(settings_class(name)).to_environment().items():
            monkeypatch.setenv(variable, value)
    for name, value in {
        "IMAGE_URI": "image",
        "ROLE_ARN": "arn:aws:iam::123456789012:role/evaluator",
        "RUN_BUCKET": "runs-bucket",
        "EVENT_BUS": "trackside",
        "IDEMPOTENCY_TABLE": "done",
        "RUN_TABLE": "runs",
        "QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/123456789012/stop",
        "TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:issues",
        "DRY_RUN_PARAMETER": "/trackside/trackside/dry-run",
        "CUSTOM_RULES_FROM": "s3://rules-bucket/approved",
        "CUSTOM_RULE_IMAGE_URI": "custom",
        "CUSTOM_RULE_ROLE_ARN": "arn:aws:iam::123456789012:role/custom",
    }.items():
        monkeypatch.setenv(f"TRACKSIDE_{name}", value)


def handler(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = importlib.import_module(f"lambdas.{name}.handler").handle
    return found


def is_clean(lines: list[dict[str, Any]]) -> bool:
    """Nothing in a log line is hidden, or another line; tracebacks, which are ours, have lines of their own."""
    texts = [
        str(value) for line in lines for key, value in line.items() if key in ("message", "correlation_id", "event_id")
    ]
    return not {unicodedata.category(c) for text in texts for c in text} & HIDDEN


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", [each for each in FUNCTIONS if each != "reconcile"])
def test_no_message_moves_a_function_to_do_anything(
    *, account: Any, sagemaker: Stubber, deliver: Deliver, log_lines: LogLines, name: str, body: str
) -> None:
    """It is refused, and lies among the dead letters, or there is nothing to do; its neighbour is not held back."""
    assert deliver(handler(name), body, body) in ([], ["message-0", "message-1"])
    lines = log_lines()
    assert lines, "nothing was said of it"
    assert is_clean(lines), lines
    assert account.messages() == []
    assert account.items() == {}
    assert account.remembered() == 0


@pytest.mark.parametrize("uri", TAGS)
@pytest.mark.parametrize("state", ["training_started", "training_stopped"])
def test_no_tag_opens_another_place(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, log_lines: LogLines, state: str, uri: str
) -> None:
    boto3.client("events").create_event_bus(Name="trackside")  # where the owner is told what is wrong
    assert deliver(handler("start_evaluation"), golden(state, Tags={"trackside:run": uri})) == []
    lines = [line for line in log_lines() if "Nothing to do" in str(line.get("message"))]
    assert len(lines) == 1
    assert lines[0]["level"] == "WARNING", "its owner wanted something else"
    assert is_clean(lines)


@pytest.mark.parametrize("arn", ARNS)
def test_no_arn_stops_another_job(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, log_lines: LogLines, arn: str
) -> None:
    """`sagemaker` expects no call at all."""
    event = golden("ours_issues_found", TrainingJobArn=arn)
    event["detail"]["Actions"] = ["StopTraining"]
    assert deliver(handler("stop_training"), event) in ([], ["message-0"])
    assert account.items("decision#") == {}
    assert is_clean(log_lines())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("StatusDetails", EVIL, id="what a rule says"),
        pytest.param("RuleConfigurationName", EVIL, id="a rule's name"),
        pytest.param("TrainingJobName", EVIL, id="a job's name"),
    ],
)
def test_no_name_writes_a_line_into_a_mail_or_a_log(
    *, account: Any, golden: Golden, deliver: Deliver, log_lines: LogLines, field: str, value: str
) -> None:
    event = golden("ours_issues_found", **{field: value})
    event["detail"]["Actions"] = ["Notify"]
    assert deliver(handler("notify_owner"), event) in ([], ["message-0"])
    assert is_clean(log_lines())
    for message in account.messages():
        shown = message["Message"]
        assert not {unicodedata.category(c) for c in shown.replace("\n", "")} & HIDDEN
        assert '{"level": "INFO"}' not in [line.strip() for line in shown.splitlines()]


def test_every_function_is_tried() -> None:
    assert len(FUNCTIONS) >= 7
