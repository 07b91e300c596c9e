"""`--quiet`: lines for comfort go, results and problems stay."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main
from trackside.rules.catalogue import default_request

JUDGED = f"judged by the {len(default_request().rules)} default rules"


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run("bad", [1.0, math.nan, math.nan])
    Path("trackside.toml").write_text('skip = ["overfit"]')


@pytest.mark.parametrize(
    ("line", "comfort", "result"),
    [
        pytest.param(["rules", "run", "bad"], JUDGED, "exploding-tensor", id="rules-run"),
        pytest.param(["rules", "test", "bad"], JUDGED, "exploding-tensor", id="rules-test"),
        pytest.param(["export", "bad", "tb", "--to", "tensorboard"], "Look at it", "", id="export"),
        pytest.param(["import", "bad", "copy"], "ended", "", id="import"),
        pytest.param(["check", "--", "true"], "rehearsal in", "could not try", id="check"),
    ],
)
def test_results_stay(line: list[str], comfort: str, result: str) -> None:
    loud = CliRunner().invoke(main, line)
    assert comfort in f"{loud.stdout}{loud.stderr}"
    command = 2 if line[0] == "rules" else 1
    again = [{"tb": "tb2", "copy": "copy2"}.get(word, word) for word in line]
    quiet = CliRunner().invoke(main, [*again[:command], "--quiet", *again[command:]])
    assert quiet.exit_code == loud.exit_code
    assert comfort not in f"{quiet.stdout}{quiet.stderr}"
    assert result in quiet.stdout
    assert bool(quiet.stdout) is bool(result)


def test_problems_stay() -> None:
    quiet = CliRunner().invoke(main, ["export", "nowhere", "tb", "--to", "tensorboard", "-q"])
    assert quiet.exit_code == 3
    assert "nowhere" in quiet.stderr
