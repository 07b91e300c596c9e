"""`trackside drill` on the deployed stacks: what it says when a stop is held, and that nothing of it is left behind.

That it passes where all is well: test_drill.py, with the real CDK command line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stacks.assembly import assembly
from tests.journeys.waiting import eventually
from trackside.cli import main
from trackside.cloud.calls import Calls
from trackside.cloud.drill import PREFIX, Drill, DrillSettings
from trackside.cloud.drill_stage import register_evaluator
from trackside_localaccount import LocalAccount
from trackside_localaccount.deploy import deploy

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("drill")
QUICK = DrillSettings(pace_seconds=0.05, poll_seconds=0.1, timeout_seconds=3600)


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[LocalAccount, dict[str, str]]]:
    """The account, and the outputs of its stacks."""
    folder = assembly({"trackside:keep_data": "false", "trackside:drills": "true"})
    with LocalAccount(stop_grace_seconds=3) as account:
        outputs = {name: value for each in deploy(folder, account).values() for name, value in each.items()}
        register_evaluator(account, ROOT)
        yield account, outputs


def left_behind(account: LocalAccount, outputs: dict[str, str]) -> list[str]:
    """What drills made that is still there."""
    queues = account.client("sqs").list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", [])
    topic = outputs["IssueTopicArn"]
    subscriptions = account.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    runs = account.client("s3").list_objects_v2(Bucket=outputs["RunBucketName"], Prefix=f"{PREFIX}/")
    jobs = account.client("sagemaker").list_training_jobs(StatusEquals="InProgress", NameContains=PREFIX)
    return [
        *queues,
        *(each["Endpoint"] for each in subscriptions),
        *(each["Key"] for each in runs.get("Contents", ())),
        *(each["TrainingJobName"] for each in jobs["TrainingJobSummaries"]),
    ]


def test_a_stop_that_is_held_is_named_and_nothing_is_left_behind(stage: tuple[LocalAccount, dict[str, str]]) -> None:
    account, outputs = stage
    switch = outputs["DryRunParameterName"]
    account.client("ssm").put_parameter(Name=switch, Value="true", Overwrite=True, Type="String")
    result = CliRunner().invoke(main, ["drill", "--yes"], env=account.environment())
    account.client("ssm").put_parameter(Name=switch, Value="false", Overwrite=True, Type="String")
    assert result.exit_code == 1, result.stderr
    assert "✓ a rule finds it" in result.stdout
    assert "✗ stop is decided" in result.stdout
    assert "WouldStop: dry run" in " ".join(result.stdout.split())
    assert "trackside aws verdicts trackside-drill-" in " ".join(result.stdout.split())
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert left_behind(account, outputs) == []
    check_that_alarms_watch_what_is_emitted(account, outputs)


def test_what_is_broken_off_is_cleaned_up(stage: tuple[LocalAccount, dict[str, str]]) -> None:
    """Ctrl-C while it waits. Of what an earlier drill's job stored last, that drill could not know."""
    account, outputs = stage
    drill = Drill(Calls(account.client), QUICK, job=f"{PREFIX}-broken-off")

    def left() -> list[str]:
        return [each for each in left_behind(account, outputs) if drill.job in each]

    drill.begin()
    account.hops.wait_for("job-state", job=drill.job, status="InProgress")
    assert left() != []
    done, not_done = drill.clean_up()
    assert not_done == ()
    assert {"training job stopped", "subscription removed", "queue deleted"} <= set(done)
    account.hops.wait_for("job-state", job=drill.job, status="Stopped")
    # The job, its evaluators and the function that marks its end may store something until they hear of the stop.
    eventually(account, lambda: drill.clean_up() == ((), ()) and not left(), "nothing is left to be cleaned up")


def check_that_alarms_watch_what_is_emitted(account: LocalAccount, outputs: dict[str, str]) -> None:
    """Walks every alarm on a metric of ours: CloudWatch has it, with just those dimensions. A drill made the verdicts;
    a tick makes the sweep."""
    tick = json.dumps({"id": "a tick of the schedule"})
    account.client("sqs").send_message(QueueUrl=outputs["ReconcileQueueUrl"], MessageBody=tick)
    cloudwatch = account.client("cloudwatch")
    alarms = [each for each in _alarms(cloudwatch) if each["Namespace"].startswith("Trackside")]
    assert len(alarms) >= 4
    for each in alarms:
        eventually(account, lambda alarm=each: _is_emitted(cloudwatch, alarm), f"{each['MetricName']} is emitted")  # type: ignore[misc]  # the loop's own


def _alarms(cloudwatch: Any) -> Iterator[dict[str, Any]]:
    for page in cloudwatch.get_paginator("describe_alarms").paginate():
        yield from page["MetricAlarms"]


def _is_emitted(cloudwatch: Any, alarm: dict[str, Any]) -> bool:
    wanted = {(each["Name"], each["Value"]) for each in alarm["Dimensions"]}
    metrics = cloudwatch.list_metrics(Namespace=alarm["Namespace"], MetricName=alarm["MetricName"])["Metrics"]
    return any({(each["Name"], each["Value"]) for each in metric["Dimensions"]} == wanted for metric in metrics)
