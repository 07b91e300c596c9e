"""Rules written for smdebug that are slow, hang or crash, beside rules of ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Verdict
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.rule_processes.rule_limits import RuleLimits
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

LOSS = "CrossEntropyLoss_output_0"
IN_C = "import ctypes; ctypes.PyDLL(None).sleep(600)"  # and keeps the interpreter's lock
FILLS = "kept = [bytearray(1 << 26) for _ in range(40)]"  # 2.5 times what it may have
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
FILE = """
import sys
import time

from smdebug.rules import Rule


class LossTooHigh(Rule):
    def __init__(self, base_trial, at="-1", act="pass"):
        super().__init__(base_trial)
        self.at, self.act = int(at), act

    def invoke_at_step(self, step):
        if step == self.at:
            self.logger.info("step %d", step)
            while self.act == "loop":  # in the rule's own file, so that its thread can be ended
                pass
            exec(self.act)
        loss = self.base_trial.tensor("CrossEntropyLoss_output_0").value(step).max()
        if loss > 5:
            self.logger.warning("the loss is %.0f", loss)
        return bool(loss > 5)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    store = LocalStore(RunLocation(str(tmp_path / "run")).tensors)
    write_collections(store)
    for step in range(20):
        write_tensors(store, step, {LOSS: 9.0 if step >= 11 else 1.0, "gradient/Net_fc1.weight": float("nan")})
    end_run(store)
    (tmp_path / "rules.py").write_text(FILE, encoding="utf-8")
    return tmp_path


def judge(folder: Path, *asked: dict[str, str]) -> list[Verdict]:
    run, deadline = RunLocation(str(folder / "run")), time.monotonic() + HANGS_SECONDS
    source = str(folder / "rules.py")
    custom = [
        RuleConfiguration("LossTooHigh", name=f"custom-{number}", parameters=parameters, source=source)
        for number, parameters in enumerate(asked)
    ]
    summary = evaluate(
        run,
        RuleRequest((*custom, RuleConfiguration("exploding-tensor"))),
        [JsonLinesSink(open_store(run.rule_output))],
        poll_seconds=0.01,
        clock=time.time,
        sleep=time.sleep,
        should_stop=lambda: time.monotonic() > deadline,
        limits=RuleLimits(step_seconds=1.0, memory_bytes=2**30),
    )
    assert summary.has_ended
    return list(summary.verdicts)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        pytest.param({}, [("issue-found", 11)], id="quick"),
        pytest.param({"at": "3", "act": "time.sleep(0.5)"}, [("issue-found", 11)], id="slow"),
        pytest.param(
            {"at": "15", "act": "time.sleep(600)"}, [("issue-found", 11), ("not-evaluated", 15)], id="hangs-later"
        ),
        pytest.param({"at": "3", "act": "time.sleep(600)"}, [("not-evaluated", 3)], id="sleeps"),
        pytest.param({"at": "3", "act": "loop"}, [("not-evaluated", 3)], id="loops"),
        pytest.param({"at": "3", "act": "1 / 0"}, [("not-evaluated", 3)], id="raises"),
        pytest.param({"at": "3", "act": "sys.exit()"}, [("not-evaluated", 3)], id="exits"),
        pytest.param({"at": "3", "act": IN_C}, [("not-evaluated", 3)], id="stays in C, with the interpreter's lock"),
        pytest.param({"at": "15", "act": IN_C}, [("issue-found", 11), ("not-evaluated", 15)], id="stays in C later"),
        pytest.param({"at": "3", "act": "bytearray(1 << 31)"}, [("not-evaluated", 3)], id="allocates too much"),
        pytest.param({"at": "3", "act": FILLS}, [("not-evaluated", 3)], id="fills its memory bit by bit"),
        pytest.param({"at": "3", "act": "import os; os._exit(0)"}, [("not-evaluated", 3)], id="ends the process"),
        pytest.param({"at": "3", "act": KILLED}, [("not-evaluated", 3)], id="dies of a signal"),
    ],
)
def test_it_says_what_it_says_and_ours_do_not_wait(
    run: Path, parameters: dict[str, str], told: list[tuple[str, int]]
) -> None:
    verdicts = judge(run, parameters)
    assert [(v.outcome.value, v.step) for v in verdicts if v.configuration_name == "custom-0"] == told
    assert [(v.outcome.value, v.step) for v in verdicts if v.rule_id == "exploding-tensor"] == [("issue-found", 0)]


def test_two_of_one_file_are_asked_beside_each_other_and_each_keeps_its_words(run: Path) -> None:
    verdicts = judge(run, {"at": "3", "act": "time.sleep(0.4)"}, {"at": "11", "act": "time.sleep(0.4)"})
    messages = [v.message for v in verdicts if v.configuration_name.startswith("custom")]
    assert messages == ["The custom rule LossTooHigh fired at step 11: the loss is 9."] * 2
