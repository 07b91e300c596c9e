"""Streams: a page learns of each change, goes on where it was cut, and holds up no end."""

from __future__ import annotations

import re
import signal
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from tests.smdebug.s3_here import local_s3
from tests.training_lib.views.dashboard.runs import ISSUE, LOSS, write_run
from tests.training_lib.views.dashboard.served import served
from trackside.contracts.run_layout import RULE_OUTPUT, VERDICTS_KEY, RunLocation
from trackside.storage.local import LocalStore


def revision_of(page: str) -> str:
    found = re.search(r'data-events="[^"]*since=(\w+)"', page)
    assert found is not None
    return found[1]


def next_change(stream: HTTPResponse) -> str:
    """Wait for the next event that says that the run has changed, and return its number."""
    number = ""
    while line := stream.readline().decode().rstrip("\n"):
        if line.startswith("id: "):
            number = line.removeprefix("id: ")
    return number or next_change(stream)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / ".trackside/runs/live"
    write_run(folder, ended=False)
    return folder


def judge(run: Path) -> None:
    LocalStore(RunLocation(str(run)).rule_output).put(VERDICTS_KEY, f"{ISSUE.to_json()}\n".encode())


def test_a_change_is_said_and_the_page_shows_it(tmp_path: Path, run: Path) -> None:
    with served(tmp_path) as server:
        before = revision_of(server.page("/runs/live"))
        with server.open(f"/runs/live/events?since={before}") as stream:
            judge(run)
            number = next_change(stream)
        assert number != before
        after = server.page("/runs/live")
        assert revision_of(after) == number
        assert "✖ CRITICAL" in after


def test_a_stream_that_was_cut_says_what_it_missed(tmp_path: Path, run: Path) -> None:
    with served(tmp_path) as server:
        before = revision_of(server.page("/runs/live"))
        judge(run)
        with server.open(f"/runs/live/events?since={before}") as stream:
            number = next_change(stream)
        write_run(run.parent / "other")
        with server.open(f"/runs/live/events?since={before}", headers={"Last-Event-ID": "older"}) as stream:
            assert next_change(stream) == number


def test_a_run_that_was_removed_and_made_again_is_read_anew(tmp_path: Path, run: Path) -> None:
    from trackside.runs.run_folder import RunRecord, write_record

    with served(tmp_path) as server:
        write_record(run, RunRecord(("python", "first.py"), started_at=1.0, ended_at=2.0, status=0))
        assert f"{LOSS}" in server.page("/runs/live")
        for path in sorted(run.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        write_run(run, steps=50)
        write_record(run, RunRecord(("python", "second.py"), started_at=3.0, ended_at=4.0, status=0))
        assert 'data-steps="0,49"' in server.page("/runs/live")


def test_the_runs_of_a_bucket_are_shown_and_followed(tmp_path: Path, run: Path) -> None:
    with local_s3() as s3:
        s3.client().create_bucket(Bucket="bucket")
        for file in run.rglob("*"):
            if file.is_file():
                s3.client().upload_file(str(file), "bucket", f"jobs/live/{file.relative_to(run)}")
        with served(tmp_path, "s3://bucket/jobs", environment=s3.environment) as server:
            assert "1 run in" in server.page("/")
            before = revision_of(server.page("/runs/live"))
            with server.open(f"/runs/live/events?since={before}") as stream:
                verdicts = f"{ISSUE.to_json()}\n".encode()
                s3.client().put_object(Bucket="bucket", Key=f"jobs/live/{RULE_OUTPUT}/{VERDICTS_KEY}", Body=verdicts)
                next_change(stream)
            assert "✖ CRITICAL" in server.page("/runs/live")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_open_streams_end_with_the_server(tmp_path: Path, run: Path, number: signal.Signals) -> None:
    with served(tmp_path) as server:
        streams = [server.open("/runs/live/events") for _ in range(3)]
        server.process.send_signal(number)
        server.process.wait(HANGS_SECONDS)
        for stream in streams:
            stream.close()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        pytest.param(("nowhere",), 3, "There is no folder 'nowhere'.", id="no-folder"),
        pytest.param((".trackside/runs/live",), 2, "is itself a run", id="a-run"),
        pytest.param(("--host", "203.0.113.1"), 2, "cannot be listened at", id="not-ours"),
    ],
)
def test_what_cannot_be_served_is_said(
    tmp_path: Path, run: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    import subprocess
    import sys

    from trackside.environment import inherited

    done = subprocess.run(
        [sys.executable, "-m", "trackside", "serve", "--port", "0", *arguments],
        cwd=tmp_path, env=inherited(), capture_output=True, text=True, check=False, timeout=HANGS_SECONDS,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
