"""The page `docs/reading-runs.md`: its Python runs, its commands work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from trackside.cli import main
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

PAGE = Path(__file__).parents[3] / "docs" / "reading-runs.md"
RUN = ".trackside/runs/a"


@pytest.fixture(autouse=True)
def _a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore(f"{RUN}/debug-output")
    write_collections(store)
    for step in range(0, 50, 10):
        weight = np.full((3, 2), float(step))
        tensors = {"CrossEntropyLoss_output_0": 2.0, "MLP_fc1.weight": weight, "gradient/MLP_fc1.weight": weight}
        write_tensors(store, step, tensors)
    end_run(store)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_python_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, object] = {"run": RUN}
    found = blocks("python")
    assert len(found) >= 4
    for block in found:
        exec(compile(block, str(PAGE), "exec"), scope)  # noqa: S102 - the page's own code is what is tested
    shown = capsys.readouterr().out
    assert "ended, steps 0 to 40 (5 saved), 3 tensors" in shown
    assert "(0, 10, 20, 30, 40) (5, 1)" in shown


def test_the_commands_work() -> None:
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 3
    for command in commands:
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert (result.exit_code, result.stderr) == (0, ""), command
        assert result.stdout
