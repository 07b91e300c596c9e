"""The deployed chain at its ordinary work: what is asked for is done, and nothing else.

One account for all, for none of these tests changes the deployment; under faults: test_whole_chain.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stacks.assembly import assembly
from tests.journeys.test_whole_chain import STOPPABLE, Cloud, keys_of, tag_of
from trackside.contracts.action import Action
from trackside.contracts.run_layout import RunLocation
from trackside_localaccount.server import LocalAccount

pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with LocalAccount(stop_grace_seconds=3) as account:
        yield Cloud(account, assembly())


def test_only_what_was_asked_for_is_done(cloud: Cloud) -> None:
    job, sibling = cloud.train("mnist", tags=STOPPABLE), cloud.train("mnist-2", tags=STOPPABLE)
    cloud.send_issue(job, Action.NOTIFY)
    assert cloud.eventually(lambda: cloud.mail_about(job), "the owner is told")
    assert cloud.status(job) == "InProgress"
    cloud.send_issue(job, Action.STOP_TRAINING, rule="exploding-tensor")
    assert cloud.eventually(lambda: cloud.status(job) == "Stopped", "the job is stopped")
    assert cloud.status(sibling) == "InProgress", "a job whose name merely begins alike is not touched"


def test_the_official_event_reaches_the_same_handlers(cloud: Cloud) -> None:
    job = cloud.train("official")
    statuses = [("VanishingGradient", "IssuesFound", "condition met"), ("Overfit", "InProgress", "")]
    cloud.account.emit_official_rule_status(job.name, statuses)
    (mail,) = cloud.eventually(lambda: cloud.mail_about(job), "the owner is told")
    assert "VanishingGradient" in mail
    assert "Overfit" not in mail
    assert cloud.status(job) == "InProgress", "nothing is stopped unasked"


def test_a_job_that_was_killed_is_judged_to_its_end(cloud: Cloud) -> None:
    """SIGKILL: no end marker from inside. start_evaluation writes it, so the evaluator ends."""
    name = "killed"
    run = RunLocation(f"s3://{cloud.outputs['RunBucketName']}/{name}")
    job = cloud.train(name, "print('training', flush=True); import os; os.kill(os.getpid(), 9)", tags=tag_of(run))
    assert cloud.eventually(lambda: cloud.status(job) == "Failed", "the job has failed")
    s3 = cloud.account.client("s3")
    bucket = cloud.outputs["RunBucketName"]
    cloud.eventually(
        lambda: f"{name}/debug-output/training_job_end.ts" in keys_of(s3, bucket), "the end marker is written"
    )
    sagemaker = cloud.account.client("sagemaker")
    (row,) = cloud.eventually(
        lambda: sagemaker.list_processing_jobs(NameContains=name)["ProcessingJobSummaries"], "one evaluator was started"
    )
    evaluator = row["ProcessingJobName"]
    ended = cloud.eventually(
        lambda: (
            (d := sagemaker.describe_processing_job(ProcessingJobName=evaluator))["ProcessingJobStatus"] == "Completed"
            and d
        ),
        "the evaluator has ended",
    )
    assert ended["ExitMessage"].startswith("No rule could judge this run.")
    (mail,) = cloud.eventually(lambda: cloud.mail_about(job), "the owner is told that nobody judged")
    assert "No rule could judge this run" in mail


def test_a_job_without_the_tag_is_left_alone(cloud: Cloud) -> None:
    cloud.train("private")
    tagged = cloud.train("tagged", tags=tag_of(RunLocation(f"s3://{cloud.outputs['RunBucketName']}/tagged")))
    sagemaker = cloud.account.client("sagemaker")
    cloud.eventually(
        lambda: sagemaker.list_processing_jobs(NameContains=tagged.name)["ProcessingJobSummaries"], "tagged is watched"
    )
    assert sagemaker.list_processing_jobs(NameContains="private")["ProcessingJobSummaries"] == []
