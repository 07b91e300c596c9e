"""The fault switch: what it draws, and what each fault does to a real function's call."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import ConfigurationError
from trackside_localaccount.faults import CallFault, Faults, FaultSwitch

NOTES_DOWN = """
    import boto3

    def handle(event, context):
        client = boto3.client("dynamodb")
        for record in event["Records"]:
            client.put_item(TableName="notes", Item={"id": {"S": record["messageId"]}})
        return {"batchItemFailures": []}
"""


def test_equal_seeds_draw_equal_numbers() -> None:
    faults = Faults(seed=3, duplicate=0.5, delay_seconds=1, throttle=0.3, redeliver=0.5)
    first, second = FaultSwitch(faults), FaultSwitch(faults)
    assert [first.delivery() for _ in range(20)] == [second.delivery() for _ in range(20)]
    assert [first.call("sns") for _ in range(20)] == [second.call("sns") for _ in range(20)]
    assert first.counts == second.counts


def test_no_faults_change_nothing() -> None:
    switch = FaultSwitch()
    assert not switch.drops("aws.sagemaker", "id")
    assert switch.delivery() == [0.0]
    assert switch.call("sns") is None
    assert not switch.redelivers()
    assert not any(switch.counts.values())


def test_an_event_is_dropped_for_all_rules_or_for_none_and_ours_never() -> None:
    switch = FaultSwitch(Faults(drop=0.5))
    drawn = {number: {switch.drops("aws.sagemaker", str(number)) for _ in range(3)} for number in range(50)}
    assert {len(answers) for answers in drawn.values()} == {1}
    assert {True, False} == {answer for answers in drawn.values() for answer in answers}
    assert not any(switch.drops("trackside", str(number)) for number in range(50))
    assert switch.counts["drop"] == sum(answers == {True} for answers in drawn.values())


def test_only_the_service_that_is_down_is_down() -> None:
    switch = FaultSwitch(Faults(outage=("sns",)))
    assert switch.call("sns") is CallFault.OUTAGE
    assert switch.call("sqs") is None


@given(
    st.builds(
        Faults,
        seed=st.integers(0, 9999),
        duplicate=st.floats(0, 1),
        throttle=st.floats(0, 1),
        outage=st.lists(st.sampled_from(["sns", "sqs"]), unique=True).map(tuple),
    )
)
def test_faults_survive_being_written_down(faults: Faults) -> None:
    assert Faults.from_mapping(json.loads(json.dumps(faults.to_mapping()))) == faults


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("throtle=0.1", "Did you mean 'throttle'", id="a name mistyped"),
        pytest.param("throttle=2", "probability", id="more than always"),
        pytest.param("throttle=often", "'often'", id="no number"),
        pytest.param("seed", "seed", id="no value"),
    ],
)
def test_what_is_no_fault_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Faults.from_text(text)


def test_a_text_names_faults() -> None:
    assert Faults.from_text("seed=3 throttle=0.1 outage=sns,sqs") == Faults(3, throttle=0.1, outage=("sns", "sqs"))


@pytest.mark.parametrize(
    ("faults", "error", "noted"),
    [
        pytest.param(Faults(crash_before=1), "Runtime.ExitError", 0, id="dies before the call"),
        pytest.param(Faults(crash_after=1), "Runtime.ExitError", 1, id="dies after the call"),
        pytest.param(Faults(throttle=1), "ThrottlingException", 0, id="refused"),
        pytest.param(Faults(outage=("dynamodb",)), "ServiceUnavailable", 0, id="down"),
        pytest.param(Faults(lost_answer=1), "InternalFailure", 1, id="the answer is lost"),
        pytest.param(Faults(outage=("sns",)), "none", 1, id="another service is down"),
    ],
)
def test_a_fault_befalls_a_functions_call(bench: Any, faults: Faults, error: str, noted: int) -> None:
    name = f"f{abs(hash(faults)) % 10**9}"
    bench.account.client("dynamodb").create_table(
        TableName=f"notes-{name}",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    code = NOTES_DOWN.replace('"notes"', f'"notes-{name}"').replace(
        'boto3.client("dynamodb")',
        'boto3.client("dynamodb", config=boto3.session.Config(retries={"total_max_attempts": 1}))',
    )
    bench.function(name, code)
    bench.account.faults.set(faults)
    try:
        answer = bench.account.client("lambda").invoke(
            FunctionName=name, Payload=json.dumps({"Records": [{"messageId": "a"}]})
        )
    finally:
        bench.account.faults.set(Faults())
    payload = json.loads(answer["Payload"].read())
    assert ("FunctionError" in answer) == (error != "none")
    if error != "none":
        assert error in payload["errorType"] + payload["errorMessage"]
    assert bench.account.client("dynamodb").scan(TableName=f"notes-{name}")["Count"] == noted
    bench.account.client("lambda").delete_function(FunctionName=name)


def test_who_tests_is_not_disturbed(bench: Any) -> None:
    bench.account.faults.set(Faults(throttle=1, outage=("sqs",)))
    try:
        bench.queue("undisturbed")
    finally:
        bench.account.faults.set(Faults())


def test_the_switch_is_read_and_set_over_http(bench: Any) -> None:
    url = f"{bench.account.endpoint_url}/_local-account/faults"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(  # noqa: S310 - the account's own
        url, data=b'{"seed": 4, "throttle": 0.5}', method="PUT"
    )
    with opener.open(asked) as answer:
        assert json.load(answer)["faults"]["throttle"] == 0.5
    assert bench.account.faults.faults == Faults(seed=4, throttle=0.5)
    bench.account.faults.set(Faults())
    with opener.open(url) as answer:
        assert json.load(answer)["faults"]["seed"] == 0
    with pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(urllib.request.Request(url, data=b'{"trottle": 1}', method="PUT"))  # noqa: S310 - likewise
    assert "Did you mean 'throttle'" in refused.value.read().decode()


def test_a_message_that_was_done_comes_back(bench: Any) -> None:
    _, queue = bench.queue("again")
    bench.function("again", "def handle(event, context):\n    return {'batchItemFailures': []}\n")
    bench.account.client("lambda").create_event_source_mapping(
        FunctionName="again", EventSourceArn=queue, FunctionResponseTypes=["ReportBatchItemFailures"]
    )
    bench.account.faults.set(Faults(redeliver=1))
    bench.account.client("sqs").send_message(QueueUrl="http://x/again", MessageBody="once")
    bench.account.hops.wait_for("queue-batch", queue="again", failed=1)
    bench.account.faults.set(Faults())
    bench.account.hops.wait_for("queue-batch", queue="again", failed=0)


def test_a_lost_event_reaches_no_rule(bench: Any) -> None:
    url, queue = bench.queue("lost")
    bench.rule("lost", {"detail-type": ["test"], "source": ["aws.somebody", "program"]}, {"Arn": queue})
    bench.account.faults.set(Faults(drop=1))
    bench.account.emit_event("aws.somebody", "test", {"is": "lost"})
    bench.put_event("program", {"is": "kept"})
    bench.account.hops.wait_for("event-dropped", rule="lost")
    bench.account.faults.set(Faults())
    (message,) = bench.receive(url)
    assert json.loads(message["Body"])["detail"] == {"is": "kept"}
