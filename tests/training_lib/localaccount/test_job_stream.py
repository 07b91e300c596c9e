"""What a job prints, in CloudWatch Logs: while it runs, and all of it in the end."""

from __future__ import annotations

from typing import Any

import pytest

GROUP = "/aws/sagemaker/TrainingJobs"


def lines(bench: Any, job: str, group: str = GROUP) -> list[str]:
    """As the SDK reads them: the streams of the job's name, from their head."""
    logs = bench.account.client("logs")
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        return []
    found = []
    for stream in logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{job}/")["logStreams"]:
        assert stream["logStreamName"].startswith(f"{job}/algo-1-")
        token: dict[str, str] = {}
        while True:
            page = logs.get_log_events(
                logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True, **token
            )
            if not page["events"]:
                break
            found += [event["message"] for event in page["events"]]
            token = {"nextToken": page["nextForwardToken"]}
    return found


def ends(bench: Any, job: str, code: str) -> None:
    bench.training_job(job, "python", "-c", code)
    found = bench.account.hops.find
    bench.eventually(
        lambda: found("job-state", job=job, status="Completed") or found("job-state", job=job, status="Failed")
    )


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        pytest.param("print('epoch 1'); print('epoch 2')", ["epoch 1", "epoch 2"], id="lines"),
        pytest.param("print('no end of line', end='')", ["no end of line"], id="the-last-one-is-not-ended"),
        pytest.param("print('a'); print(); print('b')", ["a", " ", "b"], id="an-empty-one"),
        pytest.param("import sys; sys.stderr.write('oh\\n'); sys.exit(3)", ["oh"], id="of-a-job-that-fails"),
        pytest.param(
            "import sys; sys.stdout.buffer.write(b'\\xff\\n' + 'Größe'.encode())", ["�", "Größe"], id="not-utf-8"
        ),
        pytest.param("print('\\n'.join(map(str, range(2500))))", [str(k) for k in range(2500)], id="many"),
        pytest.param("pass", [], id="nothing"),
    ],
)
def test_all_is_there_when_the_job_has_ended(
    bench: Any, request: pytest.FixtureRequest, code: str, wanted: list[str]
) -> None:
    name = request.node.callspec.id
    ends(bench, name, code)
    assert lines(bench, name) == wanted


def test_comes_while_the_job_runs(bench: Any) -> None:
    bench.training_job("long", "python", "-c", "import time; print('epoch 1', flush=True); time.sleep(600)")
    assert bench.eventually(lambda: lines(bench, "long")) == ["epoch 1"]
    assert bench.account.job_pid("long")
    bench.account.client("sagemaker").stop_training_job(TrainingJobName="long")


def test_processing_jobs_have_a_group_of_their_own(bench: Any) -> None:
    bench.processing_job("judge", "python", "-c", "print('judged')")
    group = "/aws/sagemaker/ProcessingJobs"
    assert bench.eventually(lambda: lines(bench, "judge", group)) == ["judged"]
    assert lines(bench, "judge") == []


def test_a_job_that_cannot_start_prints_nothing(bench: Any) -> None:
    bench.training_job("nobody", "/no/such/program")
    bench.account.hops.wait_for("job-state", job="nobody", status="Failed")
    assert lines(bench, "nobody") == []
