"""The evaluator's container as one of several for a run, as a link of a chain, and on a worker's lifeline."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rule_containers.evaluator.entrypoint import main
from tests.patience import HANGS_SECONDS, wait_until
from tests.rule_containers.evaluator.test_entrypoint import ENTRY_POINT, JOB_ARN
from trackside.contracts.deployment.evaluator_ending import EndKind, EvaluatorEnding, ending_key, read_ending
from trackside.contracts.deployment.evaluators import CONTINUED_PREFIX
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.environment import inherited
from trackside.evaluation import exit_codes
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

Judge = Callable[..., tuple[int, str]]

REQUEST = RuleRequest(
    (
        # In Amazon's sense, of what was saved alone: nothing waits for statistics that may still come.
        RuleConfiguration("exploding-tensor", name="first", preset="aws-docs"),
        RuleConfiguration("vanishing-gradient", name="second one", preset="aws-docs"),
        RuleConfiguration("loss-not-decreasing", name="third", preset="aws-docs"),
    )
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Four steps, the gradient infinite from the third on; not ended."""
    folder = tmp_path / "run"
    LocalStore(folder).put("rule-request.json", REQUEST.to_json().encode())
    store = LocalStore(folder / "debug-output")
    write_collections(store)
    for step in range(4):
        gradient = float("inf") if step >= 2 else 0.5
        write_tensors(store, step, {"CrossEntropyLoss_output_0": 2.0 - step / 4, "gradient/Net_fc1.weight": gradient})
    return folder


@pytest.fixture
def judge(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    def start(**environment: str) -> tuple[int, str]:
        told = {"TRACKSIDE_RUN": str(run), "TRACKSIDE_ML_ROOT": str(tmp_path / "ml"), "TRAINING_JOB_ARN": JOB_ARN}
        for name, value in {**told, "TRACKSIDE_POLL_SECONDS": "0.05", **environment}.items():
            monkeypatch.setenv(name, value)
        code = main()
        for name in environment:
            monkeypatch.delenv(name)
        return code, (tmp_path / "ml" / "output" / "message").read_text()

    return start


def said(file: Path) -> list[str]:
    return [json.loads(line)["configuration"] for line in file.read_text().splitlines()]


def noted(run: Path, configuration: str = "") -> EvaluatorEnding | None:
    """The note of the last evaluator about its end."""
    return read_ending((run / "rule-output" / ending_key(configuration)).read_bytes())


def test_each_judges_its_own_rule_and_writes_beside_the_others(run: Path, judge: Judge) -> None:
    end_run(LocalStore(run / "debug-output"))
    for name in ("first", "second one"):
        assert judge(TRACKSIDE_RULE_CONFIGURATION=name)[0] == 0
    assert judge(TRACKSIDE_RULES_AFTER="2")[0] == 0
    files = sorted((run / "rule-output").rglob("verdicts.jsonl"))
    assert sorted(map(said, files)) == [["first"], ["second one"], ["third"]]
    assert len(list((run / "rule-output").rglob("progress.json"))) == 3
    assert said(run / "rule-output" / "verdicts.jsonl") == ["third"]
    notes = [noted(run, name) for name in ("first", "second one", "")]
    assert [note and note.kind for note in notes] == [EndKind.JUDGED] * 3


def test_a_rule_that_the_request_does_not_have_is_said(judge: Judge) -> None:
    code, message = judge(TRACKSIDE_RULE_CONFIGURATION="fourth")
    assert code == exit_codes.BAD_CONFIGURATION
    assert "has no configuration 'fourth'" in message


def test_it_hands_over_before_its_time_is_over_and_another_goes_on(run: Path, judge: Judge) -> None:
    code, message = judge(TRACKSIDE_MAX_RUNTIME_SECONDS="0.1")
    assert code == 0
    assert message.startswith(f"{CONTINUED_PREFIX}judged up to step 3.")
    assert noted(run) == EvaluatorEnding(JOB_ARN, 1, EndKind.CONTINUED, message)
    assert said(run / "rule-output" / "verdicts.jsonl") == ["first"]
    end_run(LocalStore(run / "debug-output"))
    code, message = judge(TRACKSIDE_MAX_RUNTIME_SECONDS="600", TRACKSIDE_LINK="2")
    assert code == 0
    assert noted(run) == EvaluatorEnding(JOB_ARN, 2, EndKind.JUDGED, message)
    assert message.startswith("RuleEvaluationConditionMet")
    assert said(run / "rule-output" / "verdicts.jsonl") == ["first", "second one", "third"]


def test_what_has_judged_the_end_hands_nothing_over(run: Path, judge: Judge) -> None:
    end_run(LocalStore(run / "debug-output"))
    assert judge(TRACKSIDE_MAX_RUNTIME_SECONDS="0.1")[1].startswith("RuleEvaluationConditionMet")


def test_it_ends_at_once_when_its_worker_does(run: Path, tmp_path: Path) -> None:
    told = {
        "TRACKSIDE_RUN": str(run),
        "TRACKSIDE_ML_ROOT": str(tmp_path / "ml"),
        "TRACKSIDE_LIFELINE": "1",
        "TRACKSIDE_POLL_SECONDS": "60",
    }
    process = subprocess.Popen(
        [sys.executable, str(ENTRY_POINT)],
        env={**inherited(), **told},
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    verdicts = run / "rule-output" / "verdicts.jsonl"
    wait_until(lambda: verdicts.exists() or process.poll() is not None)
    process.stdin.close()
    assert process.wait(HANGS_SECONDS) == exit_codes.LEASE_LOST
    assert said(verdicts) == ["first"]
