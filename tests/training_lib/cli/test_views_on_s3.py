"""`trackside watch` and `trackside compare` for runs in S3: the same screen as for the same run on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner
from moto import mock_aws

from tests.training_lib.agents.asked import call
from tests.training_lib.cli.test_watch import REQUEST, write_run
from tests.training_lib.local.verdicts import issue
from trackside.agents.actions import Actions
from trackside.agents.runs import Runs
from trackside.cli import main
from trackside.contracts.errors import ConfigurationError
from trackside.runs.run_folder import START_ONE
from trackside.views.query.tables import run_tables


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three runs, on this machine and in S3: `a` with an issue, `b` with another loss, and `c`, which trains."""
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    found = write_run("a")
    (found / "rule-request.json").write_text(REQUEST.to_json())
    (found / "rule-output").mkdir()
    (found / "rule-output" / "verdicts.jsonl").write_text(f"{issue().to_json()}\n")
    write_run("b", last_loss=0.25)
    write_run("c", ended=False)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="runs")
        top = Path(".trackside/runs")
        for path in top.rglob("*"):
            if path.is_file():
                client.put_object(Bucket="runs", Key=str(path.relative_to(top)), Body=path.read_bytes())
        yield


def printed(*arguments: str) -> list[str]:
    result = CliRunner().invoke(main, [*arguments])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("run", "state"),
    [pytest.param("a", "ended", id="ended"), pytest.param("c", "open", id="training")],
)
def test_a_run_is_watched(run: str, state: str) -> None:
    there, here = printed("watch", f"s3://runs/{run}", "--once"), printed("watch", run, "--once")
    assert there[0].split()[:2] == [run, state]
    assert there[0].split()[2:] == here[0].split()[2:]
    assert [line.replace("s3://runs/", "") for line in there[1:]] == here[1:]


@pytest.mark.parametrize("other", [pytest.param("s3://runs/b", id="in-s3"), pytest.param("b", id="here")])
def test_runs_are_compared(other: str) -> None:
    lines = [" ".join(line.split()) for line in printed("compare", "s3://runs/a", other)]
    assert "differs in a bit from step 39 on" in lines
    assert "only A has an issue: vanishing-gradient, since step 4" in lines
    assert any(line.startswith("B is not judged: trackside rules run") and line.endswith(other) for line in lines)


def test_runs_that_nobody_judged_have_their_last_losses_in_sql() -> None:
    there, here = (run_tables(place).tables["runs"].to_pylist() for place in ("s3://runs", ".trackside/runs"))
    last = {row["run"]: (row["last_loss"], row["last_evaluation_loss"]) for row in there}
    assert last == {row["run"]: (row["last_loss"], row["last_evaluation_loss"]) for row in here}
    assert last["b"] == (pytest.approx(0.25), None)


@pytest.mark.parametrize("command", ["watch", "compare"])
def test_a_prefix_without_a_run_is_no_run(command: str) -> None:
    result = CliRunner().invoke(main, [command, "s3://runs/nothing", *(["a"] if command == "compare" else ["--once"])])
    assert result.exit_code == 3
    assert "s3://runs/nothing" in result.stderr
    assert START_ONE not in result.stderr


def test_a_run_is_waited_for() -> None:
    ends = {name: CliRunner().invoke(main, ["wait", f"s3://runs/{name}", "--timeout", "0"]) for name in "abc"}
    assert {name: end.exit_code for name, end in ends.items()} == {"a": 1, "b": 8, "c": 9}
    assert ends["a"].stdout.startswith("a: issue; ended; issues: 1 problem\n")


def test_agents_read_runs() -> None:
    runs = Runs("s3://runs")
    page = call(runs, "list_runs")
    assert {each["run"]: each["worst"] for each in page["runs"]} == {
        "a": "critical",
        "b": "not-judged",
        "c": "not-judged",
    }
    assert call(runs, "read_verdict", run="a")["problems"][0]["rule"] == "vanishing-gradient"
    assert call(runs, "read_values", run="a")["recorded"] == 40
    assert call(runs, "compare_runs", a="a", b="b")["cure"] == "no proof"
    actions = Actions(runs)
    try:
        with pytest.raises(ConfigurationError, match="the runs of this server lie in S3"):
            actions.start_check(["python", "train.py"], steps=5)
        with pytest.raises(ConfigurationError, match="is no run that `trackside run` runs on this machine"):
            actions.stop_run("c", reason="it diverged")
    finally:
        actions.close()
