from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import ConfigurationError, RunNotFoundError
from trackside.contracts.run_layout import COLLECTIONS_PREFIX
from trackside.runs.run_folder import (
    LOCK_FILE,
    RUNS,
    RunRecord,
    RunState,
    create_run_folder,
    discard_run_folder,
    find_run,
    held,
    local_runs,
    read_record,
    run_name,
    run_state,
    write_record,
)


@pytest.fixture(autouse=True)
def _work_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make_run(name: str, *, started_at: float = 1.0, folder: Path = RUNS) -> Path:
    run = folder / name
    run.mkdir(parents=True)
    (run / "rule-request.json").write_text('{"rules":[],"version":1}')
    write_record(run, RunRecord(command=("python",), started_at=started_at))
    return run


@pytest.mark.parametrize(
    ("command", "script"),
    [
        pytest.param(["python", "examples/digits/train.py", "--epochs", "3"], "train", id="script"),
        pytest.param(["torchrun", "--nproc", "2", "train_ddp.py"], "train-ddp", id="torchrun"),
        pytest.param(["python", "-m", "my.module"], "my.module", id="module"),
        pytest.param(["/usr/bin/env"], "env", id="program"),
        pytest.param(["python", "../../évil name\n.py"], "vil-name", id="odd-name"),
        pytest.param(["..."], "run", id="nothing-usable"),
        pytest.param(["python", f"{'a' * 300}.py"], "a" * 40, id="long"),
    ],
)
def test_a_run_is_named_by_time_and_script(command: list[str], script: str) -> None:
    name = run_name(command, now=1_700_000_000.0, token="3f9a")
    assert re.fullmatch(rf"\d{{8}}-\d{{6}}-{re.escape(script)}-3f9a", name)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_whatever_the_command_the_name_is_one_plain_folder(command: list[str]) -> None:
    assert re.fullmatch(r"[A-Za-z0-9.-]+", run_name(command, now=0.0, token="0000"))


def test_a_new_folder_is_absolute_and_kept_out_of_git(tmp_path: Path) -> None:
    assert create_run_folder(RUNS / "a") == tmp_path / RUNS / "a"
    assert (tmp_path / ".trackside" / ".gitignore").read_text() == "*\n"


def test_a_folder_elsewhere_gets_no_gitignore(tmp_path: Path) -> None:
    create_run_folder(tmp_path / "results" / "a")
    assert not list(tmp_path.rglob(".gitignore"))


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigurationError, match="is not empty"):
        create_run_folder(tmp_path)


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be made"):
        create_run_folder(tmp_path / "file" / "run")


def test_discarding_removes_only_what_was_written_before_the_start(tmp_path: Path) -> None:
    run = make_run("a")
    (run / LOCK_FILE).touch()
    discard_run_folder(run)
    assert not run.exists()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("20260101-000000-train-aaaa", id="name"),
        pytest.param(str(RUNS / "20260101-000000-train-aaaa"), id="path"),
        pytest.param("latest", id="latest"),
    ],
)
def test_a_run_is_found_by(name: str) -> None:
    run = make_run("20260101-000000-train-aaaa", started_at=2.0)
    make_run("20269999-999999-earlier-bbbb", started_at=1.0)
    assert find_run(name) == str(run)


def test_latest_is_the_newest_run_with_something_to_look_at() -> None:
    captured = make_run("captured", started_at=1.0)
    (captured / "watermarks").mkdir()
    make_run("misspelt", started_at=2.0)
    rehearsal = make_run("rehearsal", started_at=3.0)
    (rehearsal / "watermarks").mkdir()
    (rehearsal / "check").mkdir()
    assert find_run("latest") == str(captured)
    running = make_run("running", started_at=4.0)
    with held(running):
        assert find_run("latest") == str(running)
    assert find_run("latest") == str(captured)


def test_a_run_on_s3_is_left_to_the_store() -> None:
    assert find_run("s3://bucket/runs/a") == "s3://bucket/runs/a"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("20260101-000000-trian-aaaa", "Did you mean '20260101-000000-train-aaaa'", id="misspelt"),
        pytest.param("empty", "'empty' is a folder, but no run", id="a-folder-that-is-no-run"),
        pytest.param("old", "'old' holds the tensors of an smdebug run", id="tensors-of-smdebug"),
    ],
)
def test_a_run_that_is_not_there_says_what_is(name: str, message: str) -> None:
    make_run("20260101-000000-train-aaaa")
    Path("empty").mkdir()
    Path("old", COLLECTIONS_PREFIX).mkdir(parents=True)
    with pytest.raises(RunNotFoundError, match=message):
        find_run(name)


@pytest.mark.parametrize("name", ["latest", "a"])
def test_where_there_is_no_run_yet_it_says_how_to_start_one(name: str) -> None:
    with pytest.raises(RunNotFoundError, match=r"trackside run -- python train\.py"):
        find_run(name)
    assert local_runs() == []


@pytest.mark.parametrize(
    ("record", "state"),
    [
        pytest.param(RunRecord(("x",), 1.0, ended_at=2.0, status=0), RunState.FINISHED, id="code-0"),
        pytest.param(RunRecord(("x",), 1.0, ended_at=2.0, status=7), RunState.FAILED, id="code-7"),
        pytest.param(RunRecord(("x",), 1.0, ended_at=2.0, status=-9), RunState.FAILED, id="killed"),
        pytest.param(RunRecord(("x",), 1.0, ended_at=2.0, status=-2), RunState.INTERRUPTED, id="ctrl-c"),
        pytest.param(RunRecord(("x",), 1.0, ended_at=2.0, status=130), RunState.INTERRUPTED, id="ctrl-c-in-a-shell"),
        pytest.param(
            RunRecord(("x",), 1.0, ended_at=2.0, status=-15, stopped_by_trackside=True), RunState.STOPPED, id="stopped"
        ),
        pytest.param(RunRecord(("x",), 1.0), RunState.LOST, id="nobody-saw-the-end"),
    ],
)
def test_the_record_tells_what_became_of_the_run(record: RunRecord, state: RunState) -> None:
    run = make_run("a")
    write_record(run, record)
    assert read_record(run) == record
    assert run_state(run) is state


def test_a_run_is_running_for_as_long_as_its_process_lives() -> None:
    run = make_run("a")
    with held(run):
        assert run_state(run) is RunState.RUNNING
    assert run_state(run) is RunState.LOST


def test_a_killed_holder_no_longer_holds() -> None:
    run = make_run("a")
    code = (
        "import os, signal, sys; from pathlib import Path; from trackside.runs.run_folder import held\n"
        "with held(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(run)], check=False).returncode == -9
    assert run_state(run) is RunState.LOST


@pytest.mark.parametrize("text", ["", "{", "[]", '{"command": 7}', '{"command": [], "started_at": 1, "ended_at": "x"}'])
def test_a_record_that_cannot_be_read_is_none(text: str) -> None:
    run = make_run("a")
    (run / "local-run.json").write_text(text)
    assert read_record(run) is None
    assert run_state(run) in {RunState.FINISHED, RunState.LOST}


@given(
    st.lists(st.text(), max_size=5),
    st.floats(0, 1e12),
    st.none() | st.tuples(st.floats(0, 1e12), st.integers(-64, 255), st.booleans()),
)
def test_a_record_reads_back_as_it_was_written(
    command: list[str], started_at: float, end: tuple[float, int, bool] | None
) -> None:
    ended_at, status, stopped = end or (None, None, False)
    record = RunRecord(tuple(command), started_at, ended_at, status, stopped)
    assert RunRecord.from_json(record.to_json()) == record


def test_a_record_is_replaced_whole() -> None:
    run = make_run("a")
    write_record(run, RunRecord(("y",), 3.0))
    assert [path.name for path in run.iterdir() if path.name.endswith(".partial")] == []
    assert os.path.getsize(run / "local-run.json") > 0
