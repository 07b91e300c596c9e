from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from trackside_localaccount.job_process import MOST_EXIT_MESSAGE_BYTES, _read_start

SLEEP = ("python", "-c", "import time; print('running', flush=True); time.sleep(600)")


def ended(bench: Any, name: str) -> Any:
    """The description of a training job, once it has ended."""
    for status in ("Completed", "Failed", "Stopped"):
        if bench.account.hops.find("job-state", job=name, status=status):
            return bench.account.client("sagemaker").describe_training_job(TrainingJobName=name)
    return None


def run(bench: Any, name: str, *command: str, **more: Any) -> Any:
    bench.training_job(name, *command, **more)
    return bench.eventually(lambda: ended(bench, name))


def test_a_training_job_is_a_real_process_that_completes(bench: Any, tmp_path: Path) -> None:
    code = (
        "import json, os, sys; root = os.environ['TRACKSIDE_ML_ROOT'];"
        "print(json.load(open(root + '/input/config/hyperparameters.json')), os.environ['TRAINING_JOB_NAME'],"
        "os.environ['COLOUR'], sys.argv[1:], os.environ['AWS_ENDPOINT_URL']); sys.stderr.write('also this')"
    )
    program = tmp_path / "train.py"
    program.write_text(code)
    specification = {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python", str(program)],
        "ContainerArguments": ["--epochs", "3"],
    }

    job = run(
        bench,
        "completes",
        AlgorithmSpecification=specification,
        HyperParameters={"lr": "0.1"},
        Environment={"COLOUR": "green"},
        Tags=[{"Key": "trackside:run", "Value": "s3://b/r"}],
    )

    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Completed", "Completed")
    assert [each["Status"] for each in job["SecondaryStatusTransitions"]] == ["Starting", "Training", "Completed"]
    assert job["CreationTime"] <= job["TrainingStartTime"] <= job["TrainingEndTime"]
    assert job["AlgorithmSpecification"] == specification
    assert job["Environment"] == {"COLOUR": "green"}
    assert "Tags" not in job
    log = bench.account.job_log("completes")
    assert f"{{'lr': '0.1'}} completes green ['--epochs', '3'] {bench.account.endpoint_url}" in log
    assert "also this" in log
    assert bench.account.job_pid("completes") is None
    tags = bench.account.client("sagemaker").list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
    assert tags == [{"Key": "trackside:run", "Value": "s3://b/r"}]


@pytest.mark.parametrize(
    ("name", "command", "reason"),
    [
        pytest.param("exits-3", ("python", "-c", "raise SystemExit(3)"), "exit code: 3", id="exit code"),
        pytest.param("raises", ("python", "-c", "1/0"), "exit code: 1", id="exception"),
        pytest.param("is-killed", ("sh", "-c", "kill -9 $$"), "exit code: -9", id="killed"),
        pytest.param(
            "not-there", ("/no/such/program",), "CannotStartContainerError: /no/such/program", id="no program"
        ),
        pytest.param("no-command", (), "register_image", id="image without a command"),
        pytest.param(
            "explains",
            ("sh", "-c", 'echo "out of memory" > "$TRACKSIDE_ML_ROOT/output/failure"; exit 1'),
            "AlgorithmError: out of memory",
            id="its own words",
        ),
    ],
)
def test_a_failed_job_says_why(bench: Any, name: str, command: tuple[str, ...], reason: str) -> None:
    job = run(bench, name, *command)

    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Failed", "Failed")
    assert reason in job["FailureReason"]


def test_stopping_ends_the_process(bench: Any) -> None:
    bench.training_job("stopped", *SLEEP)
    bench.eventually(lambda: "running" in bench.account.job_log("stopped"))
    pid = bench.account.job_pid("stopped")
    sagemaker = bench.account.client("sagemaker")

    sagemaker.stop_training_job(TrainingJobName="stopped")

    job = bench.eventually(lambda: ended(bench, "stopped"))
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ClientError, match="The request was rejected because the training job is in status Stopped"):
        sagemaker.stop_training_job(TrainingJobName="stopped")


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(bench: Any) -> None:
    code = (
        "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True));"
        "child = subprocess.Popen(['sleep', '600']); print('child', child.pid, flush=True); time.sleep(600)"
    )
    bench.training_job("stubborn", "python", "-c", code)
    bench.eventually(lambda: "\n" in bench.account.job_log("stubborn"))
    child = int(bench.account.job_log("stubborn").split()[1])

    bench.account.client("sagemaker").stop_training_job(TrainingJobName="stubborn")

    job = bench.eventually(lambda: ended(bench, "stubborn"))
    assert job["TrainingJobStatus"] == "Stopped"
    assert "no" in bench.account.job_log("stubborn")
    bench.eventually(lambda: not _runs(child))


def test_a_job_that_uses_its_grace_is_stopped_not_failed(bench: Any) -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0)));"
        "print('running', flush=True); time.sleep(600)"
    )
    bench.training_job("graceful", "python", "-c", code)
    bench.eventually(lambda: "running" in bench.account.job_log("graceful"))

    bench.account.client("sagemaker").stop_training_job(TrainingJobName="graceful")

    assert bench.eventually(lambda: ended(bench, "graceful"))["TrainingJobStatus"] == "Stopped"
    assert "saved" in bench.account.job_log("graceful")


def test_a_job_killed_from_outside_failed(bench: Any) -> None:
    bench.training_job("murdered", *SLEEP)
    bench.eventually(lambda: "running" in bench.account.job_log("murdered"))

    os.kill(bench.account.job_pid("murdered"), signal.SIGKILL)

    assert bench.eventually(lambda: ended(bench, "murdered"))["TrainingJobStatus"] == "Failed"


def test_the_time_limit_stops_a_job(bench: Any) -> None:
    job = run(bench, "endless", *SLEEP, StoppingCondition={"MaxRuntimeInSeconds": 1})

    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")


def test_each_change_of_state_is_on_the_bus(bench: Any) -> None:
    url, arn = bench.queue("states")
    pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Training Job State Change"],
        "detail": {"Tags": {"trackside:run": [{"exists": True}]}, "TrainingJobName": ["told"]},
    }
    bench.rule("states", pattern, {"Arn": arn})

    job = run(bench, "told", "true", Tags=[{"Key": "trackside:run", "Value": "s3://b/r"}])

    events = [json.loads(message["Body"]) for message in bench.receive(url, 3)]
    seen = {(event["detail"]["TrainingJobStatus"], event["detail"]["SecondaryStatus"]) for event in events}
    assert seen == {("InProgress", "Starting"), ("InProgress", "Training"), ("Completed", "Completed")}
    event = next(event for event in events if event["detail"]["TrainingJobStatus"] == "Completed")
    assert event["resources"] == [job["TrainingJobArn"]]
    assert event["detail"]["Tags"] == {"trackside:run": "s3://b/r"}
    assert event["detail"]["CreationTime"] == int(job["CreationTime"].timestamp() * 1000)
    assert event["detail"]["AlgorithmSpecification"]["ContainerEntrypoint"] == ["true"]
    assert "DebugRuleEvaluationStatuses" not in event["detail"]


def test_the_official_rule_statuses_are_sent_and_repeated(bench: Any) -> None:
    url, arn = bench.queue("official")
    pattern = {"detail": {"DebugRuleEvaluationStatuses": {"RuleEvaluationStatus": ["IssuesFound"]}}}
    bench.rule("official", pattern, {"Arn": arn})
    bench.training_job("debugged", *SLEEP)
    bench.account.hops.wait_for("job-process", job="debugged")

    statuses = [("LossNotDecreasing", "InProgress", ""), ("Vanishing", "IssuesFound", "it fired")]
    bench.account.emit_official_rule_status("debugged", statuses)
    first = json.loads(bench.receive(url)[0]["Body"])["detail"]
    bench.account.client("sagemaker").stop_training_job(TrainingJobName="debugged")
    later = [json.loads(message["Body"])["detail"]["TrainingJobStatus"] for message in bench.receive(url, 2)]

    assert first["TrainingJobStatus"] == "InProgress"
    status = first["DebugRuleEvaluationStatuses"][1]
    assert (status["RuleConfigurationName"], status["StatusDetails"]) == ("Vanishing", "it fired")
    assert isinstance(status["LastModifiedTime"], int)
    assert set(later) == {"Stopping", "Stopped"}


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        pytest.param({"TrainingJobName": "twice"}, "ResourceInUse", "must be unique", id="a name that is taken"),
        pytest.param({"TrainingJobName": "no_good"}, "ValidationException", "regular expression", id="a bad name"),
        pytest.param({"TrainingJobName": "n" * 64}, "ValidationException", "regular expression", id="a long name"),
        pytest.param(
            {"Environment": {"A": "x" * 513}}, "ValidationException", "less than or equal to 512", id="a long value"
        ),
        pytest.param({"Environment": {"A-B": "x"}}, "ValidationException", "Map keys must", id="a bad key"),
        pytest.param(
            {"Environment": {f"A{n}": "x" for n in range(101)}},
            "ValidationException",
            "less than or equal to 100",
            id="many entries",
        ),
    ],
)
def test_requests_that_aws_refuses(bench: Any, change: dict[str, Any], code: str, says: str) -> None:
    if not bench.account.hops.find("job-state", job="twice"):
        bench.training_job("twice", "true")
    name = change.pop("TrainingJobName", "refused")

    with pytest.raises(ClientError, match=says) as caught:
        bench.training_job(name, "true", **change)

    assert caught.value.response["Error"]["Code"] == code


def test_the_limits_themselves_are_allowed(bench: Any) -> None:
    environment = {f"A{n}": "x" * 512 for n in range(100)}

    job = run(bench, "n" * 63, "true", Environment=environment)

    assert job["TrainingJobStatus"] == "Completed"


def test_unknown_jobs(bench: Any) -> None:
    sagemaker = bench.account.client("sagemaker")

    for call in (sagemaker.describe_training_job, sagemaker.stop_training_job):
        with pytest.raises(ClientError, match=r"\(ValidationException\).*Requested resource not found"):
            call(TrainingJobName="unknown")
    for call in (sagemaker.describe_processing_job, sagemaker.stop_processing_job):
        with pytest.raises(ClientError, match=r"\(ValidationException\).*Could not find"):
            call(ProcessingJobName="unknown")
    with pytest.raises(LookupError, match="No job is called 'unknown'"):
        bench.account.job_log("unknown")


def test_the_name_of_a_deleted_job_is_free_again(bench: Any) -> None:
    """API_DeleteTrainingJob: only of a job that has ended; what was known of it is gone, and its ARN is given again."""
    sagemaker = bench.account.client("sagemaker")
    first = run(bench, "again", "python", "-c", "print('first')")
    with pytest.raises(ClientError, match="unique"):
        bench.training_job("again", *SLEEP)
    sagemaker.delete_training_job(TrainingJobName="again")
    with pytest.raises(ClientError, match="not found"):
        sagemaker.describe_training_job(TrainingJobName="again")
    bench.training_job("again", *SLEEP)
    bench.eventually(lambda: "running" in bench.account.job_log("again"))
    second = sagemaker.describe_training_job(TrainingJobName="again")
    assert second["TrainingJobArn"] == first["TrainingJobArn"]
    assert second["CreationTime"] > first["CreationTime"]
    with pytest.raises(ClientError, match="InProgress") as refused:
        sagemaker.delete_training_job(TrainingJobName="again")
    assert refused.value.response["Error"]["Code"] == "ResourceInUse"
    with pytest.raises(ClientError, match="Could not find"):
        sagemaker.delete_processing_job(ProcessingJobName="again")
    sagemaker.stop_training_job(TrainingJobName="again")


def test_listing_filters_sorts_and_pages(bench: Any) -> None:
    for name in ("list-b", "list-a", "list-c"):
        run(bench, name, "true")
    run(bench, "list-d", "false")
    sagemaker = bench.account.client("sagemaker")

    def names(**asked: Any) -> list[str]:
        summaries = sagemaker.list_training_jobs(NameContains="list-", **asked)["TrainingJobSummaries"]
        return [summary["TrainingJobName"] for summary in summaries]

    assert names() == ["list-d", "list-c", "list-a", "list-b"]
    assert names(SortBy="Name", SortOrder="Ascending") == ["list-a", "list-b", "list-c", "list-d"]
    assert names(StatusEquals="Failed") == ["list-d"]
    assert names(CreationTimeAfter=9e9) == []
    first = sagemaker.list_training_jobs(NameContains="list-", MaxResults=3, SortBy="Name", SortOrder="Ascending")
    rest = sagemaker.list_training_jobs(
        NameContains="list-", MaxResults=3, SortBy="Name", SortOrder="Ascending", NextToken=first["NextToken"]
    )
    assert [len(first["TrainingJobSummaries"]), len(rest["TrainingJobSummaries"])] == [3, 1]
    assert "NextToken" not in rest


# Processing jobs ------------------------------------------------------------------------------------------------------


def processed(bench: Any, name: str) -> Any:
    job = bench.account.client("sagemaker").describe_processing_job(ProcessingJobName=name)
    return job if job["ProcessingJobStatus"] in ("Completed", "Failed", "Stopped") else None


def test_a_processing_job_runs_what_is_registered_for_its_image(bench: Any, tmp_path: Path) -> None:
    url, arn = bench.queue("processing-states")
    pattern = {"detail-type": ["SageMaker Processing Job State Change"], "detail": {"ProcessingJobName": ["judges"]}}
    bench.rule("processing-states", pattern, {"Arn": arn})
    code = (
        "import json, os, pathlib; root = pathlib.Path(os.environ['TRACKSIDE_ML_ROOT']);"
        "config = json.loads((root / 'config/processingjobconfig.json').read_text());"
        "assert json.loads((root / 'config/resourceconfig.json').read_text())['hosts'] == ['algo-1'];"
        "print(config['ProcessingJobArn'], os.environ['COLOUR'], os.environ['FROM_IMAGE'], os.getcwd());"
        "(root / 'output/message').write_text('RuleEvaluationConditionMet: step 5')"
    )
    bench.account.register_image(
        "evaluator", ["python", "-c", code], folder=tmp_path, environment={"FROM_IMAGE": "yes", "COLOUR": "red"}
    )

    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/evaluator:1.0"
    bench.processing_job("judges", image=image, Environment={"COLOUR": "green"})

    job = bench.eventually(lambda: processed(bench, "judges"))
    assert job["ProcessingJobStatus"] == "Completed"
    assert job["ExitMessage"] == "RuleEvaluationConditionMet: step 5"
    assert job["Environment"] == {"COLOUR": "green"}
    assert bench.account.job_log("judges").strip() == f"{job['ProcessingJobArn']} green yes {tmp_path}"
    details = [json.loads(message["Body"])["detail"] for message in bench.receive(url, 3)]
    (last,) = [detail for detail in details if detail["ProcessingJobStatus"] == "Completed"]
    assert last["ExitMessage"] == job["ExitMessage"]
    assert last["Environment"] == {"COLOUR": "green"}


def test_a_processing_job_can_be_stopped(bench: Any) -> None:
    bench.processing_job("halted", *SLEEP)
    bench.eventually(lambda: "running" in bench.account.job_log("halted"))
    sagemaker = bench.account.client("sagemaker")

    sagemaker.stop_processing_job(ProcessingJobName="halted")

    assert bench.eventually(lambda: processed(bench, "halted"))["ProcessingJobStatus"] == "Stopped"
    with pytest.raises(ClientError, match="the processing job is in status Stopped"):
        sagemaker.stop_processing_job(ProcessingJobName="halted")


def test_a_message_that_is_not_utf8_fails_the_job(bench: Any) -> None:
    code = "import os; open(os.environ['TRACKSIDE_ML_ROOT'] + '/output/message', 'wb').write(b'\\xff\\xfe')"
    bench.processing_job("latin", "python", "-c", code)

    job = bench.eventually(lambda: processed(bench, "latin"))

    assert job["ProcessingJobStatus"] == "Failed"
    assert "not UTF-8" in job["FailureReason"]


def test_a_processing_job_takes_shorter_values_than_a_training_job(bench: Any) -> None:
    with pytest.raises(ClientError, match="less than or equal to 256"):
        bench.processing_job("too-long", "true", Environment={"A": "x" * 257})

    bench.processing_job("just-right", "true", Environment={"A": "x" * 256})
    assert bench.eventually(lambda: processed(bench, "just-right"))["ProcessingJobStatus"] == "Completed"


def test_processing_jobs_are_listed(bench: Any) -> None:
    bench.processing_job("listed", "true")

    (summary,) = bench.account.client("sagemaker").list_processing_jobs(NameContains="listed")["ProcessingJobSummaries"]

    assert summary["ProcessingJobName"] == "listed"


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        pytest.param(b"short", 5, id="short"),
        pytest.param(b"x" * 1024, 1024, id="just fits"),
        pytest.param(b"x" * 5000, 1024, id="too long"),
        pytest.param("é".encode() * 600, 1024, id="cut between characters"),
        pytest.param(b"x" + "é".encode() * 600, 1023, id="cut inside a character"),
    ],
)
def test_a_message_is_cut_to_a_kilobyte_at_a_whole_character(tmp_path: Path, content: bytes, kept: int) -> None:
    (tmp_path / "message").write_bytes(content)

    start = _read_start(tmp_path / "message")

    assert len(start) == kept <= MOST_EXIT_MESSAGE_BYTES
    start.decode()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:  # it ended just now
        return False
