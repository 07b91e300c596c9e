"""The page `docs/custom-rules.md`: its rules judge, its requests are good, its commands work."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from trackside.choosing.preflight import plan_rules
from trackside.choosing.rule_text import parse_rule
from trackside.cli import main
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.results.summary import Summary
from trackside.rules.catalogue import build_rules
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors

LOSS = "CrossEntropyLoss_output_0"
PAGE = (Path(__file__).parents[2] / "docs" / "custom-rules.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(?P<language>\w+)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[tuple[str, str]]:
    """(file, text) of each block of a language; the file is "" where none is named."""
    return [(m["file"] or "", m["text"]) for m in FENCE.finditer(PAGE) if m["language"] == language]


@pytest.fixture(autouse=True)
def _a_run_and_the_rule_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("large_gradients", "loss_spike", "test_loss_spike"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for file, text in blocks("python"):
        if file:
            Path(file).write_text(text, encoding="utf-8")
    write_spiky_run(".trackside/runs/spiky")
    store = LocalStore("run/debug-output")
    write_collections(store)
    for step in range(0, 50, 10):
        gradient = np.full((3, 2), -0.2 * step)
        write_tensors(store, step, {"CrossEntropyLoss_output_0": 1.6, "gradient/MLP_fc1.weight": gradient})
    end_run(store)


def write_spiky_run(folder: str) -> None:
    store = LocalStore(f"{folder}/debug-output")
    write_collections(store)
    losses = [2.0 - 0.02 * step for step in range(50)]
    losses[37] = 11.5
    for step in range(0, 50, 10):
        write_tensors(store, step, {LOSS: losses[step]})
    write_statistics(LocalStore(f"{folder}/statistics"), {LOSS: {"mean": dict(enumerate(losses))}})
    end_run(store)


def judged(request: RuleRequest, *, run: str = "run") -> Summary:
    return evaluate(
        RunLocation(run),
        request,
        [],
        poll_seconds=1,
        clock=lambda: 1e9,
        sleep=lambda seconds: None,
        should_stop=lambda: False,
    )


def test_every_request_of_the_page_judges() -> None:
    requests = [RuleRequest.from_json(text) for _, text in blocks("json")]
    assert len(requests) == 2, "of smdebug's kind, both"
    for request in requests:
        (issue,) = judged(request).issues
        expected = "fired at step 30: gradient/MLP_fc1.weight: mean |gradient| is 6."
        assert issue.message == f"The custom rule LargeGradients {expected}"


def test_the_old_loop_runs_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (loop,) = [text for file, text in blocks("python") if not file]
    exec(compile(loop, "custom-rules.md", "exec"), {})  # noqa: S102 - the page's own code is what is tested
    assert capsys.readouterr().out == "judged to the end\n"


COMMANDS = [shlex.split(line[2:]) for _, text in blocks("console") for line in text.splitlines()]


def test_the_commands_that_only_look_work() -> None:
    looking = [command for command in COMMANDS if command[1] == "rules"]
    assert [command[2] for command in looking] == ["show", "run", "test", "show"]
    for command in looking:
        result = CliRunner().invoke(main, command[1:])
        assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("rule", "run"),
    [
        pytest.param("LossSpike", ".trackside/runs/spiky", id="ours"),
        pytest.param("LargeGradients", "run", id="smdebug"),
    ],
)
def test_the_rules_of_the_commands_that_train_judge(rule: str, run: str) -> None:
    (command,) = [command for command in COMMANDS if command[1] == "run" and rule in command[3]]
    asked = RuleRequest((parse_rule(command[command.index("--only") + 1]),))
    assert len(build_rules(asked)) == 1
    assert judged(asked, run=run).issues


def test_the_card_is_that_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (command,) = [command for command in COMMANDS if command[1:3] == ["rules", "run"]]
    ((_, card),) = blocks("text")
    assert CliRunner().invoke(main, command[1:]).stdout == card


def test_a_new_rule_that_needs_nothing_has_nothing_saved_but_the_usual_losses() -> None:
    plan = plan_rules([parse_rule("loss_spike.py:LossSpike")], catalogue=built_in_catalogue(), actions=None)
    assert [(c.name, c.schedule.save_interval) for c in plan.capture.collections] == [("losses", 500)]
    assert plan.notes == ()


def test_the_table_of_cases_passes() -> None:
    table = import_module("test_loss_spike")
    assert {bool(case.fires) for case in table.CASES} == {True, False}
    for case in table.CASES:
        table.test_loss_spike(case)
    with pytest.raises(AssertionError, match="a spike: named"):
        table.test_loss_spike(replace(table.CASES[0], fires=()))
