"""`trackside profile` as a person reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.cli.gradient_runs import write_run
from tests.training_lib.speed.performance.test_verdict import COMPUTE, SLOW_COLLATE, measured
from trackside.cli import main
from trackside.cli.profile import print_verdict
from trackside.speed.performance.document import speed_document
from trackside.speed.performance.measured import Measured


@pytest.mark.parametrize(
    ("run", "shown", "hidden"),
    [
        pytest.param(
            measured(SLOW_COLLATE, data=50, **COMPUTE),
            ["input-bound: ", "gain    4.", "DataLoader of Images at train.py:31: num_workers=0",
             "data.py:22 in work", "time.sleep(0.05)", "change  num_workers=", "100 steps of 59 ms", "data", "50 ms"],
            ["incomplete"], id="bound",
        ),
        pytest.param(
            measured(data=0.3, **COMPUTE), ["compute-bound: ", "100 steps of 9.3 ms"], ["gain", "change"], id="computes"
        ),
    ],
)  # fmt: skip
def test_shows_the_verdict_with_its_evidence(
    run: Measured, shown: list[str], hidden: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_verdict(speed_document("run", {"worker_0": run})["workers"][0], color=False)
    text = capsys.readouterr().out
    assert [one for one in shown if one not in text] == []
    assert [one for one in hidden if one in text] == []
    assert "\x1b" not in text


@pytest.mark.parametrize("price", [pytest.param(4.0, id="given"), pytest.param(None, id="none")])
def test_shows_what_can_be_won_back_of_a_price(price: float | None, capsys: pytest.CaptureFixture[str]) -> None:
    run = measured(SLOW_COLLATE, data=50, **COMPUTE)
    (worker,) = speed_document("run", {"worker_0": run}, price=price)["workers"]
    (cause,) = worker["causes"]
    assert cause["price_an_hour"] == (None if price is None else pytest.approx(price * cause["share"]))
    print_verdict(worker, color=False)
    line = f"  price   {4.0 * cause['share']:.2f} of each hour's price can be won back at most"
    assert (line in capsys.readouterr().out.splitlines()) is (price is not None)


def test_a_run_without_times_is_incomplete_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run("bad", [1.0, 1.0, 1.0])
    result = CliRunner().invoke(main, ["profile", "bad"])
    assert result.exit_code == 0
    assert result.stdout.startswith("incomplete: ")
    assert CliRunner().invoke(main, ["profile", "nowhere"]).exit_code == 3


SCRIPT = """
import sys, time, torch

def slow_batch():
    time.sleep(0.005)
    return torch.randn(8, 20)

torch.manual_seed(0)
model = torch.nn.Linear(20, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.time() + float(sys.argv[1])
steps = 0
while steps < 40 or time.time() < until:
    optimizer.zero_grad()
    model(slow_batch()).square().mean().backward()
    optimizer.step()
    steps += 1
"""


def test_steps_of_a_run_are_profiled_and_shown(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(SCRIPT)

    def trackside(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "trackside", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    options = ["--profile-steps", "20:2", "--sample-interval", "0"]
    ran = trackside("run", *options, "--", sys.executable, "train.py", "0")
    assert ran.returncode == 0, ran.stderr
    shown = trackside("profile", "latest")
    assert shown.returncode == 0, shown.stderr
    first, second = "operators of steps 20 to 21", "functions of steps 22 to 23"
    operators, functions = shown.stdout.index(first), shown.stdout.index(second)
    assert "aten::addmm" in shown.stdout[operators:functions]
    (line,) = (line for line in shown.stdout[functions:].splitlines() if "time.sleep" in line)
    assert float(line.split(">")[1].split()[1]) >= 5.0, "milliseconds of its own a step"
    late = trackside("profile", "latest", "--steps", "3")
    assert late.returncode == 2
    assert "has ended" in late.stderr


@pytest.mark.parametrize("value", ["x", "1:0", "1:5000", ":3", "-1:2", "1:2:3"])
def test_a_range_of_steps_that_is_none_is_refused(value: str) -> None:
    result = CliRunner().invoke(main, ["run", f"--profile-steps={value}", "--", "true"])
    assert result.exit_code == 2
    assert "FIRST:COUNT" in result.output
