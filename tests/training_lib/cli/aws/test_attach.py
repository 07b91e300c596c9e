"""A request on stdin or in a file comes out as that of a watched job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result
from moto import mock_aws

from trackside.cli import main

ECR = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
RUN = "s3://runs-bucket/digits-01"
DIFFERENT = '[{"rule": "overfit", "actions": ["StopTraining"]}, "dead-relu"]'


@pytest.fixture(autouse=True)
def _bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="runs-bucket")
        yield


def attach(request: Any, *arguments: str) -> Result:
    text = request if isinstance(request, str) else json.dumps(request)
    return CliRunner().invoke(main, ["aws", "attach", "-", *arguments], input=text)


def keys() -> list[str]:
    return [each["Key"] for each in boto3.client("s3").list_objects_v2(Bucket="runs-bucket").get("Contents", ())]


def test_the_request_comes_out_with_tags_and_environment() -> None:
    result = attach({"TrainingJobName": "x"}, "--run", RUN, "--rules", "overfit", "--actions", "StopTraining Notify")
    assert result.exit_code == 0, result.stderr
    made = json.loads(result.stdout)
    assert {tag["Key"]: tag["Value"] for tag in made["Tags"]} == {
        "trackside:run": RUN,
        "trackside:rules": "overfit",
        "trackside:actions": "StopTraining Notify",
    }
    assert made["Environment"]["TRACKSIDE_RUN"] == RUN
    assert keys() == []


@pytest.mark.parametrize(
    ("arguments", "put"),
    [pytest.param([], ["digits-01/rule-request.json"], id="for real"), pytest.param(["--dry-run"], [], id="dry run")],
)
def test_what_is_too_long_is_put_into_s3(tmp_path: Path, arguments: list[str], put: list[str]) -> None:
    (tmp_path / "rules.json").write_text(DIFFERENT)
    result = attach({"TrainingJobName": "x"}, "--run", RUN, "--rules-file", str(tmp_path / "rules.json"), *arguments)
    assert result.exit_code == 0, result.stderr
    assert "s3://runs-bucket/digits-01/rule-request.json" in result.stderr
    assert keys() == put


def test_a_tuning_job_shares_one_attachment(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(DIFFERENT)
    tuning = {"HyperParameterTuningJobName": "x", "TrainingJobDefinition": {}}
    result = attach(tuning, "--run", f"{RUN}/@job", "--rules-file", str(tmp_path / "rules.json"))
    made = json.loads(result.stdout)
    assert made["TrainingJobDefinition"]["Environment"]["TRACKSIDE_RUN"] == f"{RUN}/@job"
    assert {"Key": "trackside:rules", "Value": f"{RUN}/rule-request.json"} in made["Tags"]
    assert keys() == ["digits-01/rule-request.json"]


def test_of_a_built_in_algorithm_only_states_are_recorded(tmp_path: Path) -> None:
    request = {"TrainingJobName": "x", "AlgorithmSpecification": {"TrainingImage": f"{ECR}/kmeans:1"}}
    result = attach(request, "--run", RUN, "--source-dir", str(tmp_path))
    assert "kmeans is a built-in algorithm" in result.stderr
    made = json.loads(result.stdout)
    assert {tag["Key"]: tag["Value"] for tag in made["Tags"]} == {"trackside:run": RUN, "trackside:watch": "status"}
    assert "Environment" not in made
    assert list(tmp_path.iterdir()) == []
    mine = json.loads(attach(request, "--run", RUN, "--own-image").stdout)
    assert mine["Environment"]["TRACKSIDE_RUN"] == RUN


def test_the_library_is_put_beside_the_script_or_into_s3(tmp_path: Path) -> None:
    wheel = tmp_path / "trackside-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    needed = tmp_path / "needed"
    needed.mkdir()
    (needed / "google_crc32c-1.9.0-cp311-cp311-manylinux2014_x86_64.whl").write_bytes(b"another")
    source = tmp_path / "src"
    source.mkdir()
    out = tmp_path / "watched.json"
    arguments = ["--wheel", str(wheel), "--wheels-from", str(needed), "--source-dir", str(source), "--upload"]
    result = attach({"TrainingJobName": "x"}, "--run", RUN, *arguments, "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert len((source / "requirements.txt").read_text().splitlines()) == 4
    (channel,) = json.loads(out.read_text())["InputDataConfig"]
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == f"{RUN}/trackside-wheels/"
    assert [key.rpartition("/")[2] for key in keys()] == [
        "google_crc32c-1.9.0-cp311-cp311-manylinux2014_x86_64.whl",
        "trackside-0.1.0-py3-none-any.whl",
    ]


def test_a_dry_run_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    result = attach({"TrainingJobName": "x"}, "--run", RUN, "--source-dir", str(tmp_path), "--upload", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("Would put the library's wheels into") == 2
    assert list(tmp_path.iterdir()) == []
    assert keys() == []


@pytest.mark.parametrize(
    ("request_", "arguments", "said"),
    [
        pytest.param("{", ["--run", RUN], "is not JSON", id="no JSON"),
        pytest.param([], ["--run", RUN], "must hold an object", id="no object"),
        pytest.param({}, ["--run", RUN], "TrainingJobName is missing.", id="no request"),
        pytest.param({"TrainingJobName": "x"}, ["--run", "runs/x"], "no place in S3", id="a folder"),
        pytest.param({"TrainingJobName": "x"}, ["--run", RUN, "--rules", "overfitt"], "'overfit'", id="no such rule"),
        pytest.param({"TrainingJobName": "x"}, ["--run", RUN, "--actions", "Sing"], "no action", id="no such action"),
        pytest.param({"HyperParameterTuningJobName": "x"}, ["--run", RUN], "@job", id="one run for many jobs"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_put(request_: Any, arguments: list[str], said: str) -> None:
    result = attach(request_, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
    assert keys() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--out", "{tmp}/nowhere/watched.json"], "nowhere", id="no such folder"),
        pytest.param(
            ["--capture", "{tmp}/latin.json"], "The capture request: is not JSON", id="a request that is no UTF-8"
        ),
        pytest.param(["--rules-file", "{tmp}/latin.json"], "latin.json", id="rules that are no UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_before_anything_is_put(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "rules.json").write_text(DIFFERENT)
    (tmp_path / "latin.json").write_bytes(b"\xff{}")
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    rules = [] if "--rules-file" in arguments else ["--rules-file", str(tmp_path / "rules.json")]
    result = attach({"TrainingJobName": "x"}, "--run", RUN, *rules, *given)
    assert result.exit_code == 2, result.stderr
    assert said in result.stderr
    assert keys() == []
