"""`python -m trackside.evaluation` in a process of its own: exit codes, silence on stdout, SIGTERM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS, ends_early, wait_until
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.evaluation.__main__ import main
from trackside.rules.catalogue import default_request
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

USUAL = {rule.rule_id for rule in default_request().rules}
NOT_AT_THE_START = {  # only for rules from files, S3, notebooks, long runs, and the end of a run
    *("multiprocessing", "concurrent.futures", "subprocess", "socket", "shutil", "tempfile", "html", "numpy.ma"),
    *(
        "trackside.evaluation.rule_processes.rule_process",
        "trackside.speed.run_speed",
        "trackside.speed.performance",
    ),
}


def write_run(folder: Path, *, ended: bool, rules: tuple[RuleConfiguration, ...] | None = None) -> RunLocation:
    run = RunLocation(str(folder))
    store = LocalStore(run.tensors)
    write_collections(store)
    for step in range(3):
        write_tensors(store, step, {"CrossEntropyLoss_output_0": 2.0 - step, "gradient/Net_fc1.weight": float("nan")})
    if ended:
        end_run(store)
    if rules is not None:
        LocalStore(run.uri).put("rule-request.json", RuleRequest(rules).to_json().encode())
    return run


def verdicts(run: RunLocation) -> dict[str, str]:
    file = Path(run.rule_output) / "verdicts.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {found["configuration"]: found["outcome"] for found in map(json.loads, lines)}


def start(run: RunLocation) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trackside.evaluation", "--run", run.uri, "--poll-seconds", "0.05"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_judges_a_finished_run_to_the_end_and_says_nothing_on_stdout(tmp_path: Path) -> None:
    run = write_run(tmp_path, ended=True)
    process = start(run)
    stdout, stderr = process.communicate(timeout=HANGS_SECONDS)
    assert (process.returncode, stdout) == (0, "")
    assert verdicts(run)["exploding-tensor"] == "issue-found"
    assert set(verdicts(run)) == USUAL
    assert "exploding-tensor" in stderr


def test_rules_are_built_without_what_few_runs_need() -> None:
    script = (
        "import sys, numpy\n"
        "numpys_own = set(sys.modules)\n"  # NumPy's last release for Python 3.10 brings subprocess
        "import trackside.evaluation.__main__\n"
        "from trackside.rules.catalogue import build_rules, default_request\n"
        "build_rules(default_request())\n"
        "print(*set(sys.modules) - numpys_own)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "trackside.rules.tensors.loss_spike" in loaded
    assert not loaded & NOT_AT_THE_START


def test_a_run_that_is_not_there_yet_is_waited_for_aloud(tmp_path: Path) -> None:
    process = start(RunLocation(str(tmp_path)))
    assert process.stderr is not None
    assert f"Nothing lies at {tmp_path} yet" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANGS_SECONDS)
    run = write_run(tmp_path, ended=True)
    assert "Nothing lies" not in start(run).communicate(timeout=HANGS_SECONDS)[1]


def test_sigterm_ends_it_after_what_is_complete_was_judged_and_it_goes_on_later(tmp_path: Path) -> None:
    run = write_run(tmp_path, ended=False)
    process = start(run)
    wait_until(lambda: bool(verdicts(run)))
    process.send_signal(signal.SIGTERM)
    stdout, _ = process.communicate(timeout=HANGS_SECONDS)
    assert (process.returncode, stdout) == (0, "")
    assert verdicts(run) == {"exploding-tensor": "issue-found"}  # the run goes on: nothing is clean yet
    end_run(LocalStore(run.tensors))
    process = start(run)
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 0
    assert len((Path(run.rule_output) / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()) == len(USUAL)


HANGING_RULE = """
import time
from dataclasses import dataclass

from trackside.contracts.verdict import Severity
from trackside.rules.rule import Rule


@dataclass(frozen=True)
class Hangs(Rule):
    '''It hangs.'''

    rule_id = "hangs"
    watches = ("losses",)
    save_interval = 1
    severity = Severity.CRITICAL
    since = "1"
    what_to_do = ()

    def check(self, window):
        while window.step == 1:
            {loop}
        return ()
"""


@pytest.mark.parametrize("loop", ["pass", "time.sleep(3600)", "time.sleep(0)"])
def test_sigterm_ends_it_while_a_rule_hangs(tmp_path: Path, loop: str) -> None:
    file = tmp_path / "hangs.py"
    file.write_text(HANGING_RULE.format(loop=loop), encoding="utf-8")
    rules = (RuleConfiguration("Hangs", source=str(file)), RuleConfiguration("exploding-tensor"))
    run = write_run(tmp_path / "run", ended=True, rules=rules)
    process = start(run)
    try:
        wait_until(lambda: "exploding-tensor" in verdicts(run))
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=HANGS_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (0, "")
    assert verdicts(run) == {"exploding-tensor": "issue-found"}
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        pytest.param(
            (RuleConfiguration("vanishing-gradiant"),), "Did you mean 'vanishing-gradient'?", id="unknown-rule"
        ),
        pytest.param(
            (RuleConfiguration("vanishing-gradient", parameters={"treshold": "1"}),),
            "Did you mean 'threshold'?",
            id="unknown-parameter",
        ),
        pytest.param(
            (RuleConfiguration("vanishing-gradient", parameters={"threshold": "small"}),),
            "must be a number, but is 'small'",
            id="wrong-type",
        ),
    ],
)
def test_a_wrong_request_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: tuple[RuleConfiguration, ...], said: str
) -> None:
    run = write_run(tmp_path, ended=True, rules=rules)
    assert main(["--run", run.uri]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_a_request_that_is_not_json_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path, ended=True)
    LocalStore(run.uri).put("rule-request.json", b"{")
    assert main(["--run", run.uri]) == 2
    assert "not JSON" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(tmp_path / "nowhere")]) == 3
    assert "There is no folder" in capsys.readouterr().err


def test_a_crashed_rule_is_exit_code_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path, ended=True)

    def crash(self: object, window: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("trackside.rules.tensors.exploding_tensor.ExplodingTensor.check", crash)
    assert main(["--run", run.uri, "--poll-seconds", "0.01"]) == 5
    assert verdicts(run)["exploding-tensor"] == "not-evaluated"
    assert set(verdicts(run)) == USUAL


def test_an_end_that_was_asked_for_before_the_sleep_is_not_slept_over() -> None:
    from trackside.evaluation.stop_signal import StopSignal

    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGTERM)
        with ends_early():
            stop.sleep(HANGS_SECONDS)
        assert stop.is_set
    assert signal.getsignal(signal.SIGTERM) == before
