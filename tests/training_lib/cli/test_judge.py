"""`trackside judge`: cards, columns, exit codes, JSON, and a log that grows."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner, Result
from moto import mock_aws

from trackside.cli import main

SOUND = "".join(f'{{"step": {10 * k}, "loss": {2 * math.exp(-k / 20) + 0.1}}}\n' for k in range(80))
BROKEN = SOUND + "".join(f'{{"step": {800 + 10 * k}, "loss": NaN}}\n' for k in range(4))


@pytest.fixture(autouse=True)
def _files_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("logs").mkdir()
    Path("logs/sound.jsonl").write_text(SOUND)
    Path("logs/broken.jsonl").write_text(BROKEN)


def judge(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["judge", *arguments])


def test_a_folder_of_logs() -> None:
    result = judge("logs")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "broken.jsonl: JSON lines, 84 rows up to step 830"
    assert lines[1] == "judged as loss=loss, step=step"
    assert "sound.jsonl: JSON lines, 80 rows up to step 790" in lines
    assert "✖ CRITICAL  loss-spike ─" in result.stdout
    assert lines[-2].startswith("Not asked: ")
    assert lines[-1].endswith("trackside run -- python train.py")
    assert not Path("memory:").exists()
    assert sorted(path.name for path in Path().iterdir()) == ["logs"]


@pytest.mark.parametrize(
    ("path", "options", "code"),
    [
        pytest.param("logs", ["--fail-on", "critical"], 1, id="an-issue"),
        pytest.param("logs/sound.jsonl", ["--fail-on", "warning"], 0, id="none"),
        pytest.param("logs/broken.jsonl", ["--only", "overfit", "--fail-on", "critical"], 0, id="another-rule"),
        pytest.param("logs/missing.jsonl", [], 3, id="nothing-there"),
        pytest.param("logs", ["--columns", "los=loss"], 2, id="a-wrong-role"),
        pytest.param("logs", ["--columns", "loss=los"], 2, id="a-wrong-column"),
        pytest.param("logs", ["--follow", "--json"], 2, id="options-that-do-not-go-together"),
    ],
)
def test_exit_codes(path: str, options: list[str], code: int) -> None:
    assert judge(path, *options).exit_code == code


def test_json_has_the_log_and_what_judges_more() -> None:
    document = json.loads(judge("logs/broken.jsonl", "--json").stdout)
    (run,) = document["runs"]
    assert run["worst_severity"] == "critical"
    assert run["log"]["columns"] == {"loss": "loss", "step": "step"}
    assert (run["log"]["rows"], run["log"]["last_step"], run["log"]["interval"]) == (84, 830, 10)
    assert run["log"]["to_ask_them"] == "trackside run -- python train.py"


def test_columns_of_other_names() -> None:
    Path("log.csv").write_text("t,cost\n" + "".join(f"{5 * k},{3 / (k + 1)}\n" for k in range(50)))
    refused = judge("log.csv")
    assert refused.exit_code == 2
    assert "No loss is among the numbers: t, cost." in refused.stderr
    assert "--columns loss=NAME" in refused.stderr
    result = judge("log.csv", "--columns", "loss=cost,step=t")
    assert result.stdout.splitlines()[:2] == ["log.csv: CSV, 50 rows up to step 245", "judged as loss=cost, step=t"]


def test_into_keeps_runs_that_other_commands_read() -> None:
    assert judge("logs", "--into", "kept", "-q").exit_code == 0
    found = CliRunner().invoke(main, ["findings", "kept/broken.jsonl"])
    assert "loss-spike" in found.stdout
    again = judge("logs/broken.jsonl", "--into", "kept")
    assert "trackside rm kept/broken.jsonl" in again.stderr
    other = judge("logs/sound.jsonl", "--into", "other")
    assert other.stdout.splitlines()[2] == "kept as other/sound.jsonl: trackside report other/sound.jsonl"
    runs = judge("kept")
    assert "Try: trackside rules run kept/broken.jsonl" in runs.stderr


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        pytest.param("missing", "Try: ls ", id="missing"),
        pytest.param("empty", "Try: trackside judge --help", id="empty"),
        pytest.param("notes.txt", "Try: trackside judge --help", id="no-numbers"),
    ],
)
def test_a_path_without_a_log_names_a_way_on(path: str, advice: str) -> None:
    Path("empty").mkdir()
    Path("notes.txt").write_text("nothing here\n")
    assert advice in judge(path).stderr


def test_a_log_in_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="runs")
        for name in ("sound", "broken"):
            client.put_object(Bucket="runs", Key=f"team/{name}.jsonl", Body=Path(f"logs/{name}.jsonl").read_bytes())
        whole, one = judge("s3://runs/team"), judge("s3://runs/team/sound.jsonl")
        assert judge("s3://runs/nothing").exit_code == 3
    assert (whole.exit_code, whole.stderr) == (0, "")
    assert whole.stdout == judge("logs").stdout
    assert one.stdout.startswith("sound.jsonl: JSON lines, 80 rows")


def test_follow_ends_with_the_first_grave_issue() -> None:
    log = Path("grows.jsonl")
    log.write_text(SOUND)
    writer = threading.Thread(target=lambda: (time.sleep(0.5), log.write_text(BROKEN)))
    writer.start()
    result = judge("grows.jsonl", "--follow", "--fail-on", "critical")
    writer.join()
    assert result.exit_code == 1
    assert result.stdout.count("grows.jsonl: JSON lines") == 1
    assert "✖ CRITICAL  loss-spike" in result.stdout


def test_follow_ends_when_the_log_rests() -> None:
    result = judge("logs/sound.jsonl", "--follow", "--idle", "0.1")
    assert result.exit_code == 0
    assert "✔ OK" in result.stdout
