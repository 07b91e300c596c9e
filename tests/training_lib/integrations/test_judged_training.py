"""A training that is captured in its process and judged beside it, as callbacks do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training_lib.local.test_rescue_watch import verdict
from tests.warm_python import WarmPython
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run.rescue import RescueRecord, RescueState, RescueTry, TryOutcome
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.integrations.judged_training import JudgedTraining
from trackside.runs.run_folder import RunState, read_record, run_state

SCRIPT = """
import sys
import torch
from trackside.contracts.verdict import Severity
from trackside.integrations.judged_training import JudgedTraining

class Sink:
    def issue(self, group):
        print("issue", group.lead.configuration_name, flush=True)
        raise ZeroDivisionError("a sink that fails")
    def finish(self, groups, location):
        print("finish", len(groups), flush=True)

learning_rate, on_issue, most_steps = float(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
inputs = torch.randn(64, 10)
labels = (inputs[:, 0] > 0).long()
training = JudgedTraining("run", on_issue=on_issue, report_to=[Sink()])
training.begin()
step = 0
while step < most_steps and not training.look():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    step += 1
    if "crash" in sys.argv:
        raise KeyError("the training's own")
training.finish()
print("stopped", training.should_stop, step < most_steps)
"""
STOP, SKIPPED = 'on-issue = "stop"', "overfit"
UNTIL_STOPPED = "10000000"  # hours: only a stop ends it


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_critical_issue_stops_a_training_where_the_project_wants_it(warm_python: WarmPython, script: Path) -> None:
    (script.parent / "trackside.toml").write_text(f'skip = ["{SKIPPED}"]\n{STOP}')
    done = warm_python.run(script, "1e5", "", UNTIL_STOPPED, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "stopped True True"
    assert any(line.startswith("issue ") for line in lines)
    assert "CRITICAL" in done.stderr
    assert done.stderr.count("a sink that fails") >= 1  # logged, and the training goes on
    assert run_state(script.parent / "run") is RunState.STOPPED
    record = read_record(script.parent / "run")
    assert record is not None
    assert record.command[0].endswith("train.py")
    request = RuleRequest.from_json((script.parent / "run" / RULE_REQUEST_KEY).read_bytes())
    judged = {rule.rule_id for rule in request.rules}
    assert SKIPPED not in judged
    assert "exploding-tensor" in judged


@pytest.mark.parametrize(
    ("learning_rate", "on_issue", "finds"),
    [pytest.param("1e5", "warn", True, id="warn"), pytest.param("0.05", "stop", False, id="healthy")],
)
def test_nothing_else_stops_one(
    learning_rate: str, on_issue: str, finds: bool, warm_python: WarmPython, script: Path
) -> None:
    if on_issue == "warn":  # an argument counts more than the project's setting
        (script.parent / "trackside.toml").write_text(STOP)
    done = warm_python.run(script, learning_rate, on_issue, "150", cwd=script.parent)
    assert done.stdout.splitlines()[-1] == "stopped False False", done.stderr
    assert ("CRITICAL" in done.stderr) is finds
    assert ("no issue found" in done.stderr) is not finds
    assert run_state(script.parent / "run") is RunState.FINISHED


def test_a_training_that_fails_keeps_its_error(warm_python: WarmPython, script: Path) -> None:
    done = warm_python.run(script, "0.05", "warn", "150", "crash", cwd=script.parent)
    assert done.returncode == 1
    assert 'KeyError: "the training\'s own"' in done.stderr
    assert run_state(script.parent / "run") is RunState.FAILED


def test_a_folder_that_holds_a_run_is_refused_in_the_log(warm_python: WarmPython, script: Path) -> None:
    (script.parent / "run").mkdir()
    (script.parent / "run" / "mine").touch()
    done = warm_python.run(script, "0.05", "warn", "20", cwd=script.parent)
    assert done.returncode == 0, done.stderr
    assert "is not empty" in done.stderr
    assert [each.name for each in (script.parent / "run").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"on_issue": "panic"}, 'Write "stop" or "warn".', id="on_issue"),
        pytest.param({"rules": ["dead-rely"]}, "Did you mean 'dead-relu'?", id="rule"),
        pytest.param({"rules": {"dead-relu": {"treshold": 1}}}, "treshold", id="parameter"),
        pytest.param({"report_to": ["wandbb"]}, "Did you mean 'wandb'?", id="sink"),
    ],
)
def test_a_wrong_argument_is_refused(settings: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        JudgedTraining(**settings)  # type: ignore[arg-type]
    assert expected in str(refused.value)


def test_a_wrong_setting_of_the_project_is_refused_like_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trackside.toml").write_text('on-issue = "panic"')
    with pytest.raises(ConfigurationError, match="must be one of stop, notify, nothing"):
        JudgedTraining()


@pytest.mark.parametrize(
    ("rule", "is_rescued", "state", "stops"),
    [
        ("exploding-tensor", False, None, True),
        ("exploding-tensor", True, None, False),
        ("exploding-tensor", True, RescueState.RESCUED, False),
        ("exploding-tensor", True, RescueState.LOST, True),
        ("dead-relu", True, None, True),
    ],
    ids=["no rescue", "it may yet go back", "it went back", "it could not", "what going back does not cure"],
)
def test_under_trackside_run_a_stop_leaves_a_rescue_its_time(
    *,
    rule: str,
    is_rescued: bool,
    state: RescueState | None,
    stops: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path))
    monkeypatch.setenv("TRACKSIDE_RESCUE", "1" if is_rescued else "")
    training = JudgedTraining(on_issue="stop")
    training.begin()
    (tmp_path / "rule-output").mkdir()
    (tmp_path / "rule-output" / "verdicts.jsonl").write_text(verdict(rule).to_json() + "\n")
    if state is not None:
        outcome = TryOutcome.RESCUED if state is RescueState.RESCUED else TryOutcome.FAILED
        tries = (RescueTry(121, 90, "a spike", outcome=outcome),)
        (tmp_path / "rescue").mkdir()
        (tmp_path / "rescue" / "worker_0.json").write_text(RescueRecord(state, "a reason", tries).to_json())
    assert training.look() is stops
