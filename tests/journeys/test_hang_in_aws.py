"""A training in AWS that falls silent: the evaluator finds it by the clock on the wall, and its job is stopped.

Nothing comes from the job any more: no step, no word of its process. Its twin goes on with steps, and is left alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stacks.assembly import assembly
from tests.journeys.test_whole_chain import Cloud, tag_of
from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.action import Action
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.recorded_names import STEP_SECONDS
from trackside.contracts.run_layout import STATISTICS, TENSORS, RunLocation
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_collections, write_tensors
from trackside_localaccount.server import LocalAccount

pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process

SILENCE_SECONDS = 20  # minutes in a real deployment
HANG = RuleConfiguration(
    "hang",
    parameters={"silence_seconds": str(SILENCE_SECONDS), "least_seconds": "10", "is_critical": "true"},
    actions=(Action.STOP_TRAINING, Action.NOTIFY),
)
STEPS = 12


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with LocalAccount(stop_grace_seconds=3) as account:
        yield Cloud(account, assembly())


class Steps:
    """The steps of a run, as they come into its bucket."""

    def __init__(self, cloud: Cloud, folder: Path, name: str) -> None:
        self._cloud, self._here, self._name = cloud, folder / name, name
        self.location = RunLocation(f"s3://{cloud.outputs['RunBucketName']}/{name}")
        self._uploaded: dict[str, bytes] = {}
        LocalStore(self._here).put("rule-request.json", RuleRequest((HANG,)).to_json().encode())
        write_collections(LocalStore(self._here / TENSORS))
        self._log = StatisticsLog(LocalStore(self._here / STATISTICS), worker="worker_0", started_ms=1)
        self._next = 0

    def come(self, count: int) -> None:
        """Let so many steps of 0.1 s arrive."""
        steps = range(self._next, self._next + count)
        self._next += count
        for step in steps:
            row = {(STEP_SECONDS, "mean"): 0.1}
            self._log.record(row, step=step, mode="TRAIN", mode_step=step, wall_time=time.time())
            write_tensors(LocalStore(self._here / TENSORS), step, {"CrossEntropyLoss_output_0": 1.0})
        self._log.flush()
        self._upload()

    def _upload(self) -> None:
        s3 = self._cloud.account.client("s3")
        store = LocalStore(self._here)
        for key in sorted(store.list(), key=lambda key: ("index/" in key, key)):
            content = store.get(key)
            if self._uploaded.get(key) != content:  # a segment grows
                bucket = self._cloud.outputs["RunBucketName"]
                s3.put_object(Bucket=bucket, Key=f"{self._name}/{key}", Body=content)
                self._uploaded[key] = content


def verdicts(cloud: Cloud, name: str) -> list[dict[str, Any]]:
    s3 = cloud.account.client("s3")
    try:
        body = s3.get_object(Bucket=cloud.outputs["RunBucketName"], Key=f"{name}/rule-output/verdicts.jsonl")["Body"]
    except s3.exceptions.NoSuchKey:
        return []
    return [json.loads(line) for line in body.read().splitlines()]


def test_a_job_that_falls_silent_is_stopped_and_its_twin_goes_on(cloud: Cloud, tmp_path: Path) -> None:
    silent, twin = Steps(cloud, tmp_path, "silent"), Steps(cloud, tmp_path, "twin")
    for run in (silent, twin):
        run.come(STEPS)
    job = cloud.train("silent", tags=tag_of(silent.location))
    other = cloud.train("twin", tags=tag_of(twin.location))

    def is_found() -> bool:
        twin.come(1)
        return any(verdict["outcome"] == "issue-found" for verdict in verdicts(cloud, "silent"))

    cloud.eventually(is_found, "the silence is found")
    (verdict,) = [each for each in verdicts(cloud, "silent") if each["outcome"] == "issue-found"]
    (finding,) = verdict["findings"]
    assert verdict["rule"] == "hang"
    assert finding["measure"] == "seconds without a new step"
    assert finding["observed"] > SILENCE_SECONDS
    cloud.eventually(lambda: cloud.status(job) in {"Stopping", "Stopped"}, "the job is stopped")
    assert cloud.eventually(lambda: cloud.mail_about(job), "the owner is told")
    assert not [each for each in verdicts(cloud, "twin") if each["outcome"] == "issue-found"]
    assert cloud.status(other) == "InProgress"
