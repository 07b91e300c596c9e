from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from trackside.cli import main
from trackside.contracts.run_layout import event_key
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors


@pytest.fixture(autouse=True)
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("old")
    write_collections(store)
    for step in range(3):
        write_tensors(store, step, {"loss": 2.0, "w": np.ones(4)})
    end_run(store)


def run_import(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["import", *arguments])


def test_what_was_done_is_told() -> None:
    result = run_import("old", "new")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "new: 3 steps of 1 worker; ended\n8 files: 8 linked; 0 bytes copied.\n"
    again = run_import("old", "new")
    assert again.stdout.splitlines()[1] == "8 files: 0 linked, 8 already there; 0 bytes copied."
    assert CliRunner().invoke(main, ["tensors", "new"]).exit_code == 0


def test_a_run_of_this_folder_goes_by_its_name() -> None:
    assert run_import("old", ".trackside/runs/a").exit_code == 0
    by_name, latest = run_import("a", "copy"), run_import("latest", "copy2")
    assert (by_name.exit_code, latest.exit_code) == (0, 0), by_name.stderr + latest.stderr
    assert by_name.stdout.startswith("copy: 3 steps")


def test_without_a_destination() -> None:
    result = run_import("old")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "old: 3 steps of 1 worker; ended",
        "Nothing was moved or copied; a packed index was written beside it.",
    ]


def test_damage_and_a_missing_end_are_told() -> None:
    os.unlink("old/training_job_end.ts")
    os.truncate(Path("old") / event_key(1, "worker_0"), 30)
    result = run_import("old", "new")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "new: 3 steps of 1 worker; no end marker"
    ending, damage = result.stderr.splitlines()
    assert ending == "Without an end marker it is read as a run that still trains."
    assert damage.startswith(f"Warning: damaged, imported as it is: {event_key(1, 'worker_0')}, byte 30: ")


def test_what_could_not_be_imported_is_an_exit_code() -> None:
    os.unlink(Path("old") / event_key(1, "worker_0"))
    os.symlink("/etc/hostname", Path("old") / event_key(1, "worker_0"))
    result = run_import("old", "new")
    assert result.exit_code == 3
    assert "7 files: 7 linked" in result.stdout
    assert f"Warning: not imported: {event_key(1, 'worker_0')}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        pytest.param([], 2, "SOURCE", id="nothing"),
        pytest.param(["nope"], 3, "debug-output", id="no-run"),
        pytest.param(["old", "old/new"], 2, "within the source", id="within"),
        pytest.param(["old", "ftp://x"], 2, "s3://bucket/prefix", id="scheme"),
    ],
)
def test_errors_say_what_would_work(arguments: list[str], exit_code: int, said: str) -> None:
    result = run_import(*arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert said in result.stderr
