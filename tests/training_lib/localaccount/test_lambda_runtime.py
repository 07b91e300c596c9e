from __future__ import annotations

import json
from typing import Any

import pytest

ECHO = """
    import os, sys
    calls = 0
    def handle(event, context):
        global calls
        calls += 1
        print("said in the handler")
        return {
            "event": event, "calls": calls, "pid": os.getpid(), "arn": context.invoked_function_arn,
            "left": context.get_remaining_time_in_millis(), "colour": os.environ.get("COLOUR"),
            "name": os.environ["AWS_LAMBDA_FUNCTION_NAME"], "task": os.environ["LAMBDA_TASK_ROOT"],
        }
"""


def invoke(bench: Any, name: str, event: Any = None, **more: Any) -> tuple[Any, str | None]:
    """The answer's payload, and the kind of error."""
    lambdas = bench.account.client("lambda")
    answer = lambdas.invoke(FunctionName=name, Payload=json.dumps(event).encode(), **more)
    return json.loads(answer["Payload"].read() or b"null"), answer.get("FunctionError")


def test_runs_the_deployed_code_and_keeps_it_warm(bench: Any) -> None:
    arn = bench.function("echo", ECHO, Environment={"Variables": {"COLOUR": "green"}}, Timeout=20)

    first, error = invoke(bench, "echo", {"x": [1]})
    second, _ = invoke(bench, arn, {"x": 2})

    assert error is None
    assert first["event"] == {"x": [1]}
    assert (first["arn"], first["name"], first["colour"]) == (arn, "echo", "green")
    assert 0 < first["left"] <= 20_000
    assert (first["calls"], second["calls"]) == (1, 2)
    assert first["pid"] == second["pid"]
    assert first["pid"] in bench.account.function_pids()
    assert [hop.names["cold"] for hop in bench.account.hops.find("lambda", function="echo")] == ["True", "False"]


def test_new_configuration_gets_a_new_process(bench: Any) -> None:
    bench.function("changing", ECHO)
    before, _ = invoke(bench, "changing")
    bench.account.client("lambda").update_function_configuration(
        FunctionName="changing", Environment={"Variables": {"COLOUR": "red"}}
    )

    after, _ = invoke(bench, "changing")

    assert (before["colour"], after["colour"]) == (None, "red")
    assert before["pid"] not in bench.account.function_pids()


def test_new_code_gets_a_new_process(bench: Any) -> None:
    bench.function("rewritten", "def handle(event, context): return 'old'")
    assert invoke(bench, "rewritten") == ("old", None)
    code = bench.zipped({"code_.py": "def handle(event, context): return 'new'"})
    bench.account.client("lambda").update_function_code(FunctionName="rewritten", ZipFile=code)

    assert invoke(bench, "rewritten") == ("new", None)


def test_layers_are_importable_and_a_later_one_wins(bench: Any) -> None:
    lambdas = bench.account.client("lambda")
    layers = [
        lambdas.publish_layer_version(
            LayerName=name, Content={"ZipFile": bench.zipped(files)}, CompatibleRuntimes=["python3.12"]
        )["LayerVersionArn"]
        for name, files in (
            ("one", {"python/shared_words.py": "word = 'one'", "python/only_one.py": "word = 'only'"}),
            ("two", {"python/shared_words.py": "word = 'two'"}),
        )
    ]
    source = "import shared_words, only_one\ndef handle(event, context): return [shared_words.word, only_one.word]"
    bench.function("layered", source, Layers=layers)

    assert invoke(bench, "layered") == (["two", "only"], None)


def test_what_aws_offers_is_there_and_nothing_else(bench: Any) -> None:
    bench.function("offered", "import boto3, awslambdaric\ndef handle(event, context): return boto3.__version__")
    bench.function("missing", "import moto\ndef handle(event, context): return 1")

    version, error = invoke(bench, "offered")
    answer, missing_error = invoke(bench, "missing")

    assert version
    assert error is None
    assert missing_error == "Unhandled"
    assert answer["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'moto'" in answer["errorMessage"]


def test_this_process_environment_does_not_leak(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKED", "yes")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    bench.function("clean", "import os\ndef handle(event, context): return sorted(os.environ)")

    names, _ = invoke(bench, "clean")

    assert not {"LEAKED", "PYTHONPATH", "HOME"} & set(names)
    assert {"AWS_ENDPOINT_URL", "AWS_REGION", "_HANDLER", "LAMBDA_TASK_ROOT"} <= set(names)


def test_reaches_the_account(bench: Any) -> None:
    source = """
        import boto3
        def handle(event, context): return boto3.client("sqs").create_queue(QueueName="made-by-function")["QueueUrl"]
    """
    bench.function("reaching", source)

    url, error = invoke(bench, "reaching")

    assert error is None
    assert bench.account.client("sqs").get_queue_url(QueueName="made-by-function")["QueueUrl"] == url


@pytest.mark.parametrize(
    ("name", "source", "timeout", "error_type", "says"),
    [
        pytest.param("raises", "def handle(e, c): raise KeyError('lost')", 9, "KeyError", "lost", id="handler raises"),
        pytest.param(
            "exits", "import os\ndef handle(e, c): os._exit(3)", 9, "Runtime.ExitError", "exit status 3", id="exit"
        ),
        pytest.param(
            "killed",
            "import os\ndef handle(e, c): os.kill(os.getpid(), 9)",
            9,
            "Runtime.ExitError",
            "SIGKILL",
            id="killed",
        ),
        pytest.param(
            "hangs",
            "import time\ndef handle(e, c): time.sleep(60)",
            1,
            "Sandbox.Timedout",
            "Task timed out after 1.00 seconds",
            id="timeout",
        ),
        pytest.param(
            "broken", "1/0\ndef handle(e, c): pass", 9, "ZeroDivisionError", "division by zero", id="init raises"
        ),
        pytest.param("syntax", "def handle(e, c) pass", 9, "Runtime.UserCodeSyntaxError", "code_", id="syntax error"),
        pytest.param("unnamed", "x = 1", 9, "Runtime.HandlerNotFound", "handle", id="no handler"),
        pytest.param(
            "unwritable",
            "def handle(e, c): return object()",
            9,
            "Runtime.MarshalError",
            "not JSON serializable",
            id="answer is not JSON",
        ),
    ],
)
def test_errors_look_like_lambdas(  # noqa: PLR0917 - one argument for each column of the table
    bench: Any, name: str, source: str, timeout: int, error_type: str, says: str
) -> None:
    bench.function(name, source, Timeout=timeout)

    for _ in range(2):  # also from a process, or after one, that has failed before
        answer, error = invoke(bench, name)

        assert error == "Unhandled"
        assert answer["errorType"] == error_type
        assert says in answer["errorMessage"]


def test_an_environment_that_died_is_replaced(bench: Any) -> None:
    bench.function("mortal", "import os\ndef handle(e, c): return os._exit(1) if e == 'die' else os.getpid()")
    first, _ = invoke(bench, "mortal", "live")
    invoke(bench, "mortal", "die")

    second, error = invoke(bench, "mortal", "live")

    assert error is None
    assert second != first
    assert first not in bench.account.function_pids()


def test_output_is_in_cloudwatch_logs_and_in_a_file(bench: Any) -> None:
    bench.function("talking", "print('while importing')\ndef handle(e, c): print('in the handler')")
    invoke(bench, "talking")

    def lines() -> list[str]:
        logs = bench.account.client("logs")
        return [event["message"] for event in logs.filter_log_events(logGroupName="/aws/lambda/talking")["events"]]

    bench.eventually(lambda: {"while importing", "in the handler"} <= set(lines()))
    assert any(line.startswith("START RequestId") for line in lines())
    assert "in the handler" in bench.account.function_log("talking")
    assert bench.account.function_log("never-ran") == ""


def test_embedded_metrics_become_metrics(bench: Any) -> None:
    source = """
        import json
        def handle(event, context):
            done = {"Name": "Done", "Unit": "Count"}
            directive = {"Namespace": "Mine", "Dimensions": [["service"]], "Metrics": [done]}
            print(json.dumps({"_aws": {"CloudWatchMetrics": [directive]}, "service": "s", "Done": [2, 3]}))
            print('{"_aws": not json')
    """
    bench.function("measuring", source)
    invoke(bench, "measuring")
    cloudwatch = bench.account.client("cloudwatch")

    found = bench.eventually(lambda: cloudwatch.list_metrics(Namespace="Mine")["Metrics"])

    assert (found[0]["MetricName"], found[0]["Dimensions"]) == ("Done", [{"Name": "service", "Value": "s"}])


def test_an_asynchronous_failure_is_tried_three_times_and_ends_in_the_dead_letter_queue(bench: Any) -> None:
    url, arn = bench.queue("function-dead-letters")
    bench.function("failing", "def handle(e, c): raise ValueError('no')", DeadLetterConfig={"TargetArn": arn})

    answer = bench.account.client("lambda").invoke(FunctionName="failing", InvocationType="Event", Payload=b'{"n": 1}')

    assert answer["StatusCode"] == 202
    (message,) = bench.receive(url)
    assert json.loads(message["Body"]) == {"n": 1}
    assert message["MessageAttributes"]["ErrorMessage"]["StringValue"] == "no"
    assert len(bench.account.hops.find("lambda", function="failing")) == 3


def test_an_asynchronous_failure_goes_to_its_destination(bench: Any) -> None:
    url, arn = bench.queue("destination")
    bench.function("failing-once", "def handle(e, c): raise ValueError('no')")
    bench.account.client("lambda").put_function_event_invoke_config(
        FunctionName="failing-once", MaximumRetryAttempts=0, DestinationConfig={"OnFailure": {"Destination": arn}}
    )

    bench.account.client("lambda").invoke(FunctionName="failing-once", InvocationType="Event", Payload=b'{"n": 1}')

    (message,) = bench.receive(url)
    record = json.loads(message["Body"])
    assert record["requestPayload"] == {"n": 1}
    assert record["requestContext"]["approximateInvokeCount"] == 1
    assert record["responsePayload"]["errorType"] == "ValueError"
    assert len(bench.account.hops.find("lambda", function="failing-once")) == 1


def test_an_asynchronous_success_is_silent(bench: Any) -> None:
    url, arn = bench.queue("unused-dead-letters")
    bench.function("fine", "def handle(e, c): return 1", DeadLetterConfig={"TargetArn": arn})

    bench.account.client("lambda").invoke(FunctionName="fine", InvocationType="Event", Payload=b"{}")

    bench.account.hops.wait_for("lambda", function="fine", error="none")
    assert bench.attribute(url, "ApproximateNumberOfMessages") == 0


def test_a_dry_run_runs_nothing(bench: Any) -> None:
    bench.function("dry", "def handle(e, c): return 1")

    answer = bench.account.client("lambda").invoke(FunctionName="dry", InvocationType="DryRun")

    assert answer["StatusCode"] == 204
    assert not bench.account.hops.find("lambda", function="dry")
