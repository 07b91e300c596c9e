from __future__ import annotations

import json
from typing import Any

import pytest

TAKES_ALL_BUT_BAD = """
    def handle(event, context):
        print(event)
        bad = [record["messageId"] for record in event["Records"] if record["body"] == "bad"]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in bad]}
"""


def connect(bench: Any, function: str, queue_arn: str, **more: Any) -> str:
    mapping = bench.account.client("lambda").create_event_source_mapping(
        FunctionName=function, EventSourceArn=queue_arn, **more
    )
    return str(mapping["UUID"])


def with_dead_letters(bench: Any, name: str, *, attempts: int = 3) -> tuple[str, str, str]:
    """URL and ARN of the queue, URL of its dead-letter queue."""
    dead_url, dead_arn = bench.queue(f"{name}-dead")
    policy = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": attempts})
    url, arn = bench.queue(name, RedrivePolicy=policy, VisibilityTimeout="60")
    return url, arn, dead_url


def test_a_batch_is_delivered_once_and_deleted(bench: Any) -> None:
    url, arn = bench.queue("whole")
    attributes = {"colour": {"DataType": "String", "StringValue": "green"}}
    sqs = bench.account.client("sqs")
    entries = [{"Id": str(n), "MessageBody": f"m{n}", "MessageAttributes": attributes} for n in range(4)]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)  # before there is a function for them
    bench.function("takes", "import json\ndef handle(e, c): print(json.dumps(e))")

    connect(bench, "takes", arn, BatchSize=10)

    (hop,) = bench.account.hops.wait_for("queue-batch", queue="whole")
    assert (hop.names["messages"], hop.names["failed"]) == ("4", "0")
    assert bench.attribute(url, "ApproximateNumberOfMessages") == 0
    assert bench.attribute(url, "ApproximateNumberOfMessagesNotVisible") == 0
    log = bench.eventually(lambda: [x for x in bench.account.function_log("takes").splitlines() if x.startswith("{")])
    event = json.loads(log[0])
    record = event["Records"][0]
    assert {each["body"] for each in event["Records"]} == {"m0", "m1", "m2", "m3"}
    assert record["messageAttributes"]["colour"]["stringValue"] == "green"
    assert (record["eventSource"], record["eventSourceARN"]) == ("aws:sqs", arn)
    assert record["attributes"]["ApproximateReceiveCount"] == "1"


def test_only_what_failed_comes_back_and_ends_in_the_dead_letter_queue(bench: Any) -> None:
    url, arn, dead_url = with_dead_letters(bench, "partly")
    bench.function("partial", TAKES_ALL_BUT_BAD)
    connect(bench, "partial", arn, FunctionResponseTypes=["ReportBatchItemFailures"])
    sqs = bench.account.client("sqs")

    sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": body, "MessageBody": body} for body in ("good", "bad", "fine")]
    )

    (message,) = bench.receive(dead_url)
    assert message["Body"] == "bad"
    bench.eventually(lambda: bench.account.function_log("partial").count("'bad'") == 3)
    log = bench.account.function_log("partial")
    assert (log.count("'bad'"), log.count("'good'"), log.count("'fine'")) == (3, 1, 1)
    assert bench.attribute(url, "ApproximateNumberOfMessages") == 0


@pytest.mark.parametrize(
    ("name", "source", "reports"),
    [
        pytest.param("crashes", "def handle(e, c): raise ValueError('no')", True, id="handler raises"),
        pytest.param("dies", "import os\ndef handle(e, c): os._exit(1)", True, id="process dies"),
        pytest.param("unimportable", "import nothing_such\ndef handle(e, c): pass", True, id="import fails"),
        pytest.param(
            "strange",
            "def handle(e, c): return {'batchItemFailures': [{'itemIdentifier': 'else'}]}",
            True,
            id="unknown id",
        ),
        pytest.param("shapeless", "def handle(e, c): return {'batchItemFailures': [{}]}", True, id="no id"),
    ],
)
def test_a_function_that_cannot_loses_nothing(bench: Any, name: str, source: str, reports: bool) -> None:
    url, arn, dead_url = with_dead_letters(bench, f"queue-{name}", attempts=2)
    bench.function(name, source)
    connect(bench, name, arn, FunctionResponseTypes=["ReportBatchItemFailures"])

    bench.account.client("sqs").send_message(QueueUrl=url, MessageBody="precious")

    (message,) = bench.receive(dead_url)
    assert message["Body"] == "precious"
    assert len(bench.account.hops.find("queue-batch", queue=f"queue-{name}")) == 2


@pytest.mark.parametrize(
    ("name", "answer", "types"),
    [
        pytest.param("says-none", "None", ["ReportBatchItemFailures"], id="nothing"),
        pytest.param("says-empty", "{'batchItemFailures': []}", ["ReportBatchItemFailures"], id="an empty list"),
        pytest.param("says-other", "'done'", [], id="anything, if failures are not reported"),
    ],
)
def test_these_answers_mean_success(bench: Any, name: str, answer: str, types: list[str]) -> None:
    url, arn = bench.queue(name)
    bench.function(name, f"def handle(e, c): return {answer}")
    connect(bench, name, arn, FunctionResponseTypes=types)

    bench.account.client("sqs").send_message(QueueUrl=url, MessageBody="m")

    (hop,) = bench.account.hops.wait_for("queue-batch", queue=name)
    assert hop.names["failed"] == "0"


def test_a_disabled_mapping_takes_nothing_until_it_is_enabled(bench: Any) -> None:
    url, arn = bench.queue("paused")
    other_url, other_arn = bench.queue("running")
    bench.function("pausable", "def handle(e, c): pass")
    mapping = connect(bench, "pausable", arn, Enabled=False)
    connect(bench, "pausable", other_arn)
    sqs = bench.account.client("sqs")
    sqs.send_message(QueueUrl=url, MessageBody="m")
    sqs.send_message(QueueUrl=other_url, MessageBody="m")
    bench.account.hops.wait_for("queue-batch", queue="running")
    assert not bench.account.hops.find("queue-batch", queue="paused")
    assert bench.attribute(url, "ApproximateNumberOfMessages") == 1

    bench.account.client("lambda").update_event_source_mapping(UUID=mapping, Enabled=True)

    bench.account.hops.wait_for("queue-batch", queue="paused")


def test_batches_are_no_larger_and_no_more_at_once_than_the_mapping_says(bench: Any) -> None:
    url, arn = bench.queue("narrow")
    bench.function("slow", "import time\ndef handle(e, c): print(time.time()); time.sleep(0.1); print(time.time())")
    sqs = bench.account.client("sqs")
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": "m"} for n in range(8)])

    connect(bench, "slow", arn, BatchSize=2, ScalingConfig={"MaximumConcurrency": 2})

    hops = bench.account.hops.wait_for("queue-batch", count=4, queue="narrow")
    assert [hop.names["messages"] for hop in hops] == ["2"] * 4
    assert len(bench.account.hops.find("lambda", function="slow", cold=True)) <= 2  # never more than two processes


def test_a_delayed_message_arrives_by_itself(bench: Any) -> None:
    url, arn = bench.queue("later")
    bench.function("patient", "def handle(e, c): pass")
    connect(bench, "patient", arn)

    bench.account.client("sqs").send_message(QueueUrl=url, MessageBody="m", DelaySeconds=1)

    assert not bench.account.hops.find("queue-batch", queue="later")
    bench.account.hops.wait_for("queue-batch", queue="later")


def test_a_missing_function_leaves_the_message_in_the_queue(bench: Any) -> None:
    url, arn, dead_url = with_dead_letters(bench, "orphaned", attempts=2)
    bench.function("goes-away", "def handle(e, c): pass")
    connect(bench, "goes-away", arn)
    bench.account.client("lambda").delete_function(FunctionName="goes-away")

    bench.account.client("sqs").send_message(QueueUrl=url, MessageBody="m")

    assert bench.receive(dead_url)[0]["Body"] == "m"
