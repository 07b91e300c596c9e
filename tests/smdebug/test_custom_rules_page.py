"""The page `docs/custom-rules.md`: its rules judge, its requests are good, its commands work."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from trackside.cli import main
from trackside.cli.run import parse_rule
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.evaluation.evaluator import Summary, evaluate
from trackside.rules.catalogue import build_rules
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

PAGE = (Path(__file__).parents[2] / "docs" / "custom-rules.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(?P<language>\w+)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[tuple[str, str]]:
    """(file, text) of each block of a language; the file is "" where none is named."""
    return [(m["file"] or "", m["text"]) for m in FENCE.finditer(PAGE) if m["language"] == language]


@pytest.fixture(autouse=True)
def _a_run_and_the_rule_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "large_gradients", raising=False)
    for file, text in blocks("python"):
        if file:
            Path(file).write_text(text, encoding="utf-8")
    store = LocalStore("run/debug-output")
    write_collections(store)
    for step in range(0, 50, 10):
        gradient = np.full((3, 2), -0.2 * step)
        write_tensors(store, step, {"CrossEntropyLoss_output_0": 1.6, "gradient/MLP_fc1.weight": gradient})
    end_run(store)


def judged(request: RuleRequest) -> Summary:
    return evaluate(
        RunLocation("run"),
        request,
        [],
        poll_seconds=1,
        clock=lambda: 1e9,
        sleep=lambda seconds: None,
        should_stop=lambda: False,
    )


def test_every_request_of_the_page_judges() -> None:
    requests = [RuleRequest.from_json(text) for _, text in blocks("json")]
    assert len(requests) == 2
    for request in requests:
        (issue,) = judged(request).issues
        expected = "fired at step 30: gradient/MLP_fc1.weight: mean |gradient| is 6."
        assert issue.message == f"The custom rule LargeGradients {expected}"


def test_the_old_loop_runs_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (loop,) = [text for file, text in blocks("python") if not file]
    exec(compile(loop, "custom-rules.md", "exec"), {})  # noqa: S102 - the page's own code is what is tested
    assert capsys.readouterr().out == "judged to the end\n"


def test_the_commands_work() -> None:
    commands = [shlex.split(line[2:]) for _, text in blocks("console") for line in text.splitlines()]
    shown = [command for command in commands if command[1] == "rules"]
    run = [command for command in commands if command[1] == "run"]
    assert (len(shown), len(run)) == (2, 2)
    for command in shown:
        result = CliRunner().invoke(main, command[1:])
        assert (result.exit_code, result.stderr) == (0, "")
    for command in run:
        rule = parse_rule(command[command.index("--rule") + 1])
        assert len(build_rules(RuleRequest((rule,)))) == 1
        assert judged(RuleRequest((rule,))).issues
