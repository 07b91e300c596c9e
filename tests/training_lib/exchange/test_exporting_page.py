"""The page `docs/exporting.md`: its Python runs, its commands work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from trackside.cli import main
from trackside.contracts.run.recorded_names import STEP_SECONDS
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.trial.tensors.statistics import STATISTICS

PAGE = Path(__file__).parents[3] / "docs" / "exporting.md"
RUN = ".trackside/runs/a"


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (f"{RUN}/debug-output", "old-run"):
        store = LocalStore(folder)
        write_collections(store)
        for step in range(0, 50, 10):
            weight = np.full((3, 2), float(step))
            tensors = {"CrossEntropyLoss_output_0": 2.0, "MLP_fc1.weight": weight, "gradient/MLP_fc1.weight": weight}
            write_tensors(store, step, tensors)
        end_run(store)
    write_statistics(LocalStore(f"{RUN}/statistics"), {STEP_SECONDS: {"mean": dict.fromkeys(range(1, 250), 0.5)}})


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_page_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 8
    for command in commands:
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.stderr)
        assert result.stdout
    scope: dict[str, object] = {"run": RUN}
    found = blocks("python")
    assert len(found) >= 2
    for block in found:
        exec(compile(block, str(PAGE), "exec"), scope)  # noqa: S102 - the page's own code is what is tested
    shown = capsys.readouterr().out
    assert "CrossEntropyLoss_output_0" in shown
    assert shown.endswith("4\n4\n")


def test_the_table_of_columns_is_that_of_the_file() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert ", ".join(f"`{name}`" for name in STATISTICS) in page
