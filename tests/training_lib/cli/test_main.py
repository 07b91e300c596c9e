"""What all commands share: every way out has its exit code and, where something is wrong, its sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.patience import HANGS_SECONDS
from trackside.cli import main, runs


@pytest.fixture
def with_command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `trackside runs` with a body of the test's own."""

    def invoke(body: Callable[[], None], *before: str) -> Result:
        monkeypatch.setattr(runs, "command", click.Command("runs", callback=body))
        return CliRunner().invoke(main, [*before, "runs"])

    return invoke


def divide() -> None:
    _ = 1 / 0


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_mistake_of_ours_is_70_with_a_hint_and_no_traceback(with_command: Callable[..., Result]) -> None:
    result = with_command(divide)
    assert result.exit_code == 70
    assert "ZeroDivisionError" in result.stderr
    assert "report the bug" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_traceback_comes_with_v(with_command: Callable[..., Result]) -> None:
    result = with_command(divide, "-v")
    assert result.exit_code == 70
    assert "Traceback" in result.stderr


def test_an_interrupt_is_130_and_silent(with_command: Callable[..., Result]) -> None:
    result = with_command(interrupt)
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize("arguments", [["rules", "list"], ["rules", "list", "--format", "json"]])
def test_a_reader_that_goes_away_ends_it_quietly(arguments: list[str], tmp_path: Path) -> None:
    """`trackside ... | head`: no traceback, and not the code of findings."""
    code = "import sys, time; sys.stdin.readline(); from trackside.cli import main; main(prog_name='trackside')"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write("\n")
    process.stdin.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=HANGS_SECONDS) == 141
    process.stderr.close()


@pytest.mark.parametrize("where", ["before", "after"])
def test_no_color_means_no_escape_codes(where: str) -> None:
    words = ["--no-color", "rules", "list"] if where == "before" else ["rules", "list", "--no-color"]
    result = CliRunner().invoke(main, words, env={"FORCE_COLOR": "1"}, color=True)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout


def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    assert "\x1b" in CliRunner().invoke(main, ["rules", "list"], env={"FORCE_COLOR": "1", "TERM": "xterm"}).stdout
    assert "\x1b" not in CliRunner().invoke(main, ["rules", "list"]).stdout


def test_the_width_is_that_of_the_terminal() -> None:
    for columns in (40, 60, 80):
        result = CliRunner().invoke(main, ["rules", "show", "vanishing-gradient"], env={"COLUMNS": str(columns)})
        to_copy = ("trackside run", "Read on: ")  # a command and an address stay whole
        lines = [line for line in result.stdout.splitlines() if not any(each in line for each in to_copy)]
        assert max(len(line) for line in lines) <= columns


def test_without_output_streams_nothing_fails() -> None:
    command = f'{sys.executable} -c "from trackside.cli import main; main()" rules list >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], check=False, timeout=HANGS_SECONDS).returncode == 0
