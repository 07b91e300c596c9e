from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.cli.terminal.terminal import ENTERS, LEAVES, Terminal
from tests.training_lib.local.verdicts import issue, no_issue
from trackside.cli import main
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation, SegmentName
from trackside.records.watermark import Watermark
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors, write_watermark

LOSS, RATE = "CrossEntropyLoss_output_0", "hyperparameters/Adam/group_0/lr"
REQUEST = RuleRequest((RuleConfiguration("vanishing-gradient"),))


def write_run(name: str = "a", *, steps: int = 40, ended: bool = True, last_loss: float = 0.5) -> Path:
    """A run whose loss, learning rate and two gradients are recorded at every step, one step a second."""
    run = RunLocation(f".trackside/runs/{name}")
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {LOSS: 2.0})
    losses = {step: 2.0 - 1.5 * step / steps for step in range(steps)}
    losses[steps - 1] = last_loss
    numbers = {
        LOSS: {"mean": losses},
        RATE: {"mean": dict.fromkeys(range(steps), 0.01)},
        "gradient/Net_fc.weight": {"l2": dict.fromkeys(range(steps), 3.0)},
        "gradient/Net_fc.bias": {"l2": dict.fromkeys(range(steps), 4.0)},
    }
    write_statistics(LocalStore(run.statistics), numbers)
    if ended:
        end_run(tensors)
    else:
        write_watermark(LocalStore(run.watermarks), Watermark("worker_0", through=steps - 1, saved_steps=1))
    return Path(run.uri)


def once(*arguments: str) -> list[str]:
    result = CliRunner().invoke(main, ["watch", *arguments, "--once"])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_a_frame_shows_the_curves_at_80_by_24() -> None:
    write_run()
    lines = once("a")
    assert lines[0].split() == ["a", "finished", "step", "39", "1", "steps/s", "39", "s"]
    assert lines[1] == f"loss  0.5  {LOSS}"
    assert lines[2].startswith("      2 │")
    assert any(line.startswith("    0.5 │") for line in lines)
    titles = next(line for line in lines if line.startswith("learning rate"))
    assert titles.split() == ["learning", "rate", "0.01", "gradient", "norm", "5", "steps/s", "1"]
    assert lines[-1] == "not judged: no rule was asked; trackside rules run a"
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("verdicts", "shown"),
    [
        pytest.param("", "not judged: 1 rule gave no answer at its end", id="none"),
        pytest.param(f"{no_issue('vanishing-gradient').to_json()}\n", "no issue", id="judged"),
        pytest.param(f"{issue().to_json()}\n", "✖ vanishing-gradient, since step", id="critical"),
        pytest.param(
            f"{no_issue('vanishing-gradient').to_json()}\n{issue().to_json()}", "no issue",
            id="a line that is being written",
        ),
    ],
)  # fmt: skip
def test_findings_stand_below(verdicts: str, shown: str) -> None:
    run = write_run()
    (run / "rule-request.json").write_text(REQUEST.to_json())
    (run / "rule-output").mkdir()
    (run / "rule-output" / "verdicts.jsonl").write_text(verdicts)
    assert once()[-1].startswith(shown)


def test_a_run_without_steps_and_a_loss_that_is_not_finite() -> None:
    Path(".trackside/runs/b").mkdir(parents=True)
    Path(".trackside/runs/b/rule-request.json").write_text(REQUEST.to_json())
    assert "no value yet" in "\n".join(once("b"))
    write_run("c", last_loss=math.nan)
    lines = once("c")
    assert lines[1].startswith("loss  nan")
    assert lines[2].endswith("x")


def test_a_run_that_is_not_there_exits_with_3() -> None:
    assert CliRunner().invoke(main, ["watch", "nowhere"]).exit_code == 3


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    write_run(ended=False)
    shown = Terminal("watch", "a", "--interval", "0.1", cwd=tmp_path)
    try:
        shown.wait_for("q leaves")
        yield shown
    finally:
        shown.kill()


@pytest.mark.parametrize(("key", "status"), [pytest.param("q", 0, id="q"), pytest.param("\x03", 130, id="Ctrl-C")])
def test_a_key_leaves_and_the_terminal_is_as_before(terminal: Terminal, key: str, status: int) -> None:
    assert not terminal.waits_for_enter()
    terminal.press("\x1b[A")  # an arrow key does nothing
    terminal.press(key)
    assert terminal.end() == status
    assert terminal.written.index(ENTERS) < terminal.written.index(LEAVES)
    assert terminal.waits_for_enter()
    assert "Traceback" not in terminal.written


def test_it_grows_with_the_run_and_ends_with_it(terminal: Terminal, tmp_path: Path) -> None:
    run = RunLocation(f"{tmp_path}/.trackside/runs/a")
    rows = LocalStore(run.statistics)
    known = set(rows.list())
    write_statistics(rows, {LOSS: {"mean": {200: 0.125}}}, mode="GLOBAL")
    segments = tuple(filter(None, (SegmentName.parse(key) for key in set(rows.list()) - known)))
    mark = Watermark("worker_0", through=200, sequence=1, saved_steps=1, segments=segments)
    write_watermark(LocalStore(run.watermarks), mark)
    terminal.wait_for("step 200")
    end_run(LocalStore(run.tensors))
    assert terminal.end() == 0
    after = terminal.written.partition(LEAVES)[2]
    assert "finished" in after, "the last frame stays"


def test_a_signal_leaves_the_terminal_as_before(terminal: Terminal) -> None:
    terminal._process.send_signal(signal.SIGTERM)
    assert terminal.end() == 128 + signal.SIGTERM
    assert terminal.waits_for_enter()
