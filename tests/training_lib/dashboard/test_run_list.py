from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from tests.training_lib.dashboard.runs import write_judged_run, write_run
from trackside.contracts.errors import TracksideError
from trackside.contracts.run_layout import RunLocation
from trackside.dashboard.run_list import ENDED_SECONDS, GROWING_SECONDS, RunList
from trackside.local.recorded_run import RunSummary
from trackside.local.run_folder import RunRecord, write_record
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_collections


@pytest.mark.parametrize(
    ("started", "names"),
    [
        pytest.param({"b": 1.0, "a": 3.0, "c": 2.0}, ["a", "c", "b"], id="newest-first-whatever-the-name"),
        pytest.param({"20260101-1": None, "20260102-1": None}, ["20260102-1", "20260101-1"], id="by-name"),
        pytest.param({"b": 1.0, "a": None}, ["a", "b"], id="without-a-record-by-the-time-of-its-folder"),
        pytest.param({}, [], id="none"),
    ],
)
def test_runs_are_listed_newest_first(tmp_path: Path, started: Mapping[str, float | None], names: list[str]) -> None:
    for name, moment in started.items():
        write_collections(LocalStore(RunLocation(str(tmp_path / name)).tensors))
        if moment is not None:
            write_record(tmp_path / name, RunRecord(("python", "train.py"), started_at=moment))
    assert list(RunList(str(tmp_path)).names()) == names


@pytest.mark.parametrize(
    ("ended", "seconds"),
    [pytest.param(True, ENDED_SECONDS, id="ended"), pytest.param(False, GROWING_SECONDS, id="growing")],
)
def test_the_room_of_a_run_is_listed_again_after_a_while(tmp_path: Path, ended: bool, seconds: float) -> None:
    now = [0.0]
    if ended:
        write_judged_run(tmp_path / "a", verdicts=())
    else:
        write_run(tmp_path / "a", steps=2, ended=False)
    runs = RunList(str(tmp_path), clock=lambda: now[0])

    def room() -> int:
        return runs.storage([one for _, one in runs.summaries(["a"]) if isinstance(one, RunSummary)])["a"].size_bytes

    before = room()
    (tmp_path / "a/more.bin").write_bytes(bytes(1000))
    now[0] = seconds - 1
    assert room() == before
    now[0] = seconds
    assert room() == before + 1000


def test_the_room_of_runs_in_a_bucket_is_listed_too() -> None:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="runs-bucket")
        for name in ("a", "b", "c"):
            for key in ("debug-output/training_job_end.ts", "rule-output/verdicts.jsonl", "statistics/x"):
                client.put_object(Bucket="runs-bucket", Key=f"jobs/{name}/{key}", Body=bytes(10))
        runs = RunList("s3://runs-bucket/jobs")
        read = [one for _, one in runs.summaries(runs.names()) if not isinstance(one, TracksideError)]
        found = runs.storage(read)
    assert {name: (one.size_bytes, one.objects) for name, one in found.items()} == dict.fromkeys("abc", (30, 3))
    assert all(one.ended_at is not None for one in found.values())
