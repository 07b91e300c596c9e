"""The removal of runs: what goes, what never goes, and what is asked before."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.patience import HANGS_SECONDS
from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main
from trackside.runs.run_folder import RunRecord, held, write_record

DAY = 86400.0
RUNS = Path(".trackside") / "runs"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def make(name: str, *, days: float = 0.0, status: int = 0) -> Path:
    write_run(name, [1.0])
    started = time.time() - days * DAY
    write_record(RUNS / name, RunRecord(("python", "t.py"), started, started + 5, status))
    return RUNS / name


def trackside(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=answer)


def left() -> list[str]:
    return sorted(path.name for path in RUNS.iterdir())


def test_a_run_is_removed_with_all_its_files() -> None:
    make("a")
    make("b")
    result = trackside("rm", "a", "--yes")
    assert (result.exit_code, left()) == (0, ["b"])
    assert result.stdout.splitlines()[1].split()[:2] == ["a", "finished"]
    assert result.stderr.startswith("Removed 1 run, ")


@pytest.mark.parametrize(
    ("answer", "code", "remaining"),
    [
        pytest.param("y\n", 0, [], id="yes"),
        pytest.param("n\n", 1, ["a"], id="no"),
        pytest.param("\n", 1, ["a"], id="enter-is-no"),
        pytest.param("", 1, ["a"], id="nobody-answers"),
    ],
)
def test_it_asks_first_and_says_what_and_how_large(answer: str, code: int, remaining: list[str]) -> None:
    make("a")
    result = trackside("rm", "latest", answer=answer)
    assert (result.exit_code, left()) == (code, remaining)
    assert "Remove 1 run, " in result.stderr
    assert "KiB, for good? [y/N]" in result.stderr


def test_a_rehearsal_removes_nothing() -> None:
    make("a")
    result = trackside("rm", "a", "--dry-run", "--json")
    document = json.loads(result.stdout)
    assert (document["removed"], [run["name"] for run in document["runs"]]) == (False, ["a"])
    assert document["runs"][0]["size_bytes"] > 1000
    assert left() == ["a"]


def test_a_run_that_trackside_run_still_writes_is_refused() -> None:
    make("a")
    (RUNS / "a" / "local-run.json").unlink()
    with held((RUNS / "a").resolve()):
        assert trackside("rm", "a", "--yes").exit_code == 2
        assert trackside("prune", "--keep", "0", "--yes").exit_code == 0
        assert left() == ["a"]
    assert trackside("rm", "a", "--yes").exit_code == 0


def test_a_run_that_a_training_process_writes_is_refused() -> None:
    make("a")
    code = (
        "import sys\nfrom trackside.capture.writing.worker_lock import WorkerLock\n"
        "from trackside.storage.local import LocalStore\n"
        f"WorkerLock(LocalStore({str(RUNS / 'a' / 'debug-output')!r}), 'worker_0').take(); print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "held\n"
        result = trackside("rm", "a", "--yes")
        assert (result.exit_code, left()) == (2, ["a"])
        assert "is still being written" in result.stderr
        assert trackside("prune", "--keep", "0", "--yes").exit_code == 0
        assert left() == ["a"]
        writer.communicate(timeout=HANGS_SECONDS)
    assert trackside("rm", "a", "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["nowhere"], 3, "There is no run 'nowhere'", id="unknown"),
        pytest.param(["s3://bucket/a"], 2, "aws s3 rm --recursive s3://bucket/a", id="in-s3"),
        pytest.param(["."], 3, "is a folder, but no run", id="another-folder"),
        pytest.param(["project"], 2, "holds files that are no part of a run: train.py.", id="more-than-a-run"),
    ],
)
def test_what_is_no_run_of_ours_stays(arguments: list[str], code: int, said: str) -> None:
    make("a")
    Path("project").mkdir()
    (RUNS / "a" / "debug-output").rename("project/debug-output")
    Path("project/train.py").write_text("precious = 1\n")
    result = trackside("rm", *arguments, "--yes")
    assert result.exit_code == code
    assert said in result.stderr
    assert Path("project/train.py").exists()


@pytest.mark.parametrize(
    ("conditions", "remaining"),
    [
        pytest.param(["--older-than", "3d"], ["new", "new-failed"], id="age"),
        pytest.param(["--older-than", "2w"], ["new", "new-failed", "old", "old-failed"], id="none-so-old"),
        pytest.param(["--keep", "1"], ["new"], id="newest"),
        pytest.param(["--keep", "9"], ["new", "new-failed", "old", "old-failed"], id="keep-more-than-exist"),
        pytest.param(["--failed"], ["new", "old"], id="failed"),
        pytest.param(["--failed", "--older-than", "12h"], ["new", "new-failed", "old"], id="all-conditions"),
    ],
)
def test_prune_removes_what_fits_all_conditions(conditions: list[str], remaining: list[str]) -> None:
    make("new")
    make("new-failed", days=0.1, status=1)
    make("old-failed", days=4, status=-9)
    make("old", days=5)
    assert trackside("prune", *conditions, "--yes").exit_code == 0
    assert left() == remaining


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "--older-than, --keep or --failed", id="no-condition"),
        pytest.param(["--older-than", "soon"], "Write a number and a unit", id="no-age"),
        pytest.param(["--keep", "-1"], "--keep", id="negative"),
    ],
)
def test_prune_without_a_sound_condition_removes_nothing(arguments: list[str], said: str) -> None:
    make("a")
    result = trackside("prune", *arguments, "--yes")
    assert (result.exit_code, left()) == (2, ["a"])
    assert said in result.stderr
