from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from tests.training_lib.local.verdicts import issue
from tests.training_lib.views.dashboard.runs import write_judged_run, write_run
from tests.work import bytecodes
from trackside.contracts.errors import TracksideError
from trackside.contracts.run_layout import VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.runs.run_folder import RunRecord, write_record
from trackside.runs.run_summary import RunSummary
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_collections, write_tensors
from trackside.views.dashboard.run_list import ENDED_SECONDS, GROWING_SECONDS, LISTED_SECONDS, RunList

FAILED = RunRecord(("python", "train.py"), started_at=1.0, ended_at=2.0, status=1)


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


def test_what_has_not_changed_is_not_parsed_again(tmp_path: Path) -> None:
    """A list of 200 ended runs cost two seconds at each load."""
    now = [0.0]
    for name in "abc":
        write_judged_run(tmp_path / name, verdicts=(issue(), *(clean(f"rule-{place}") for place in range(20))))
        settle(tmp_path / name)
    runs = RunList(str(tmp_path), clock=lambda: now[0])
    first = bytecodes(lambda: runs.summaries(["a", "b", "c"]))
    now[0] = LISTED_SECONDS
    assert bytecodes(lambda: runs.summaries(["a", "b", "c"])) < first / 10


@pytest.mark.parametrize(
    ("change", "read"),
    [
        pytest.param(lambda run: add_verdict(run, issue()), ("finished", 1, 0), id="judged-again"),
        pytest.param(
            lambda run: add_verdict(run / "rule-output/own", issue()), ("finished", 1, 0), id="by-a-container"
        ),
        pytest.param(lambda run: save_step(run, 1), ("finished", 0, 1), id="a-step-more"),
        pytest.param(lambda run: write_record(run, FAILED), ("failed", 0, 0), id="a-record"),
        pytest.param(lambda run: None, ("finished", 0, 0), id="nothing"),
    ],
)
@pytest.mark.parametrize("settled", [True, False], ids=["settled", "within-a-tick"])
def test_what_has_changed_is_read_again(
    tmp_path: Path, change: Callable[[Path], object], read: tuple[str, int, int], settled: bool
) -> None:
    now = [0.0]
    write_judged_run(tmp_path / "a", verdicts=(clean("other"),))
    if settled:
        settle(tmp_path / "a")
    runs = RunList(str(tmp_path), clock=lambda: now[0])
    runs.summaries(["a"])
    change(tmp_path / "a")
    now[0] = LISTED_SECONDS
    ((_, one),) = runs.summaries(["a"])
    assert isinstance(one, RunSummary)
    assert (one.state.value, one.issues, one.steps_saved) == read


def clean(name: str) -> Verdict:
    return replace(issue(), configuration_name=name, outcome=Outcome.CLEAN, findings=(), suspicions=())


def settle(run: Path) -> None:
    """Make every file an old one: a change within the tick of a clock would not be seen."""
    for path in run.rglob("*"):
        os.utime(path, (1.0, 1.0))


def add_verdict(folder: Path, verdict: Verdict) -> None:
    place = folder if folder.name == "own" else folder / "rule-output"
    place.mkdir(exist_ok=True)
    with (place / VERDICTS_KEY).open("a") as file:
        file.write(f"{verdict.to_json()}\n")


def save_step(run: Path, step: int) -> None:
    write_tensors(LocalStore(RunLocation(str(run)).tensors), step, {"loss": 1.0})
