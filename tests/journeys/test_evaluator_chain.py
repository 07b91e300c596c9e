"""A run that is judged by one processing job after another, for SageMaker ends each after its time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.test_whole_chain import Cloud, _function_of, tag_of
from trackside.contracts.deployment.evaluators import CONTINUED_PREFIX
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import PROGRESS_KEY, RULE_OUTPUT, TENSORS, VERDICTS_KEY, RunLocation
from trackside.evaluation.__main__ import main as judge_undisturbed
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside_localaccount.server import LocalAccount
from trackside_localaccount.start_time import seconds_to_start

pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process

# The time of one link, in starts of a program: each must come to judge something, or there is no end to them.
CAP_STARTS, LEAST_CAP_SECONDS = 24, 6
LINKS_STARTS = 1000
RULES = ("exploding-tensor", "vanishing-gradient", "loss-not-decreasing")
# In Amazon's sense, of what was saved alone: then no link waits ten seconds for statistics that may still come.
REQUEST = RuleRequest(tuple(RuleConfiguration(rule, preset="aws-docs") for rule in RULES))
VERDICTS = ("id", "outcome", "step", "since_step", "message")


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    from stacks.assembly import assembly

    with LocalAccount(stop_grace_seconds=3) as account:
        cloud = Cloud(account, assembly())
        functions, name = account.client("lambda"), _function_of(cloud, "startevaluation")
        variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        variables["TRACKSIDE_MAX_RUNTIME_SECONDS"] = str(
            max(LEAST_CAP_SECONDS, math.ceil(CAP_STARTS * seconds_to_start()))
        )
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
        yield cloud


class GrowingRun:
    """A run in the bucket, and the same in a folder."""

    def __init__(self, cloud: Cloud, folder: Path, name: str) -> None:
        self.cloud, self.folder, self.name = cloud, folder / name, name
        self.bucket = cloud.outputs["RunBucketName"]
        self.location = RunLocation(f"s3://{self.bucket}/{name}")
        self._here = LocalStore(self.folder)
        self._uploaded: set[str] = set()
        self._here.put("rule-request.json", REQUEST.to_json().encode())
        write_collections(LocalStore(self.folder / TENSORS))

    def write(self, *steps: int) -> None:
        """A loss that falls, a gradient that is infinite from step 6 on."""
        for step in steps:
            gradient = float("inf") if step >= 6 else 0.5
            values = {"CrossEntropyLoss_output_0": 2.0 * 0.9**step, "gradient/Net_fc1.weight": gradient}
            write_tensors(LocalStore(self.folder / TENSORS), step, values)
        self._upload()

    def verdicts(self) -> list[dict[str, Any]]:
        body = self.cloud.account.client("s3").get_object(
            Bucket=self.bucket, Key=f"{self.name}/{RULE_OUTPUT}/{VERDICTS_KEY}"
        )["Body"]
        return [json.loads(line) for line in body.read().splitlines()]

    def judged_through(self) -> int:
        """The newest step that a rule has judged, as the last checkpoint has it."""
        return self._most("judged_through")

    def judged_steps(self) -> int:
        """The most steps that a rule has judged."""
        return self._most("judged")

    def _most(self, word: str) -> int:
        key = f"{self.name}/{RULE_OUTPUT}/{PROGRESS_KEY}"
        s3 = self.cloud.account.client("s3")
        try:
            body = s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        except s3.exceptions.NoSuchKey:
            return -1
        return int(max(rule[word] for rule in json.loads(body.read())["rules"]))

    def verdicts_undisturbed(self) -> list[dict[str, Any]]:
        end_run(LocalStore(self.folder / TENSORS))
        assert judge_undisturbed(["--run", str(self.folder), "--poll-seconds", "0.01"]) == 0
        return [json.loads(line) for line in LocalStore(self.folder / RULE_OUTPUT).get(VERDICTS_KEY).splitlines()]

    def _upload(self) -> None:
        s3 = self.cloud.account.client("s3")
        new = sorted(set(self._here.list()) - self._uploaded, key=lambda key: ("index/" in key, key))
        for key in new:
            s3.put_object(Bucket=self.bucket, Key=f"{self.name}/{key}", Body=self._here.get(key))
        self._uploaded.update(new)


def evaluators(cloud: Cloud, name: str) -> list[dict[str, Any]]:
    """The processing jobs of a training job, oldest first."""
    sagemaker = cloud.account.client("sagemaker")
    rows = sagemaker.list_processing_jobs(NameContains=name, SortBy="CreationTime", SortOrder="Ascending")
    names = [row["ProcessingJobName"] for row in rows["ProcessingJobSummaries"]]
    return [sagemaker.describe_processing_job(ProcessingJobName=each) for each in names]


def ended(cloud: Cloud, name: str) -> list[dict[str, Any]]:
    """All of them, once none is to follow."""
    found = evaluators(cloud, name)
    return found if found and _is_done(found[-1]) else []


def _is_done(link: dict[str, Any]) -> bool:
    is_handed_over = link.get("ExitMessage", "").startswith(CONTINUED_PREFIX)
    return link["ProcessingJobStatus"] == "Completed" and not is_handed_over


def test_three_jobs_one_after_another_say_what_one_would(cloud: Cloud, tmp_path: Path) -> None:
    run = GrowingRun(cloud, tmp_path, "long")
    run.write(0, 1, 2, 3)
    job = cloud.train("long", tags=tag_of(run.location))
    # As many links as it takes on a busy machine; each begins where the one before it left off.
    cloud.eventually(
        lambda: run.judged_through() >= 3 and len(evaluators(cloud, "long")) >= 2,
        "the first has handed over",
        starts=LINKS_STARTS,
    )
    run.write(4, 5, 6, 7)
    cloud.eventually(
        lambda: run.judged_through() >= 7 and len(evaluators(cloud, "long")) >= 3,
        "the second, too",
        starts=LINKS_STARTS,
    )
    run.write(8, 9, 10, 11)
    cloud.account.client("sagemaker").stop_training_job(TrainingJobName=job.name)
    links = cloud.eventually(lambda: ended(cloud, "long"), "the last one has judged the end", starts=LINKS_STARTS)

    assert len(links) >= 3
    assert [each["ProcessingJobName"].rpartition("-")[2] for each in links[1:3]] == ["2", "3"]
    # On a busy machine a link may be ended before it hands over, which must make no difference.
    assert not any(_is_done(each) for each in links[:-1])
    assert {each["ProcessingJobStatus"] for each in links[:-1]} <= {"Completed", "Stopped"}
    said, expected = run.verdicts(), run.verdicts_undisturbed()
    assert [tuple(each[word] for word in VERDICTS) for each in said] == [
        tuple(each[word] for word in VERDICTS) for each in expected
    ]
    assert run.judged_steps() == 12, "none twice, none left out"
    assert run.judged_through() == 11
