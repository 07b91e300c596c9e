"""A script follows a run while another process writes it: the same lines under the real smdebug 1.0.34 and the drop-in.

Both read the same run at once. The writer, of either package, goes on when both readers have said what there was.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from tests.smdebug.s3_here import local_s3
from tests.smdebug.sides import HERE, Side, ours, theirs

FIRST, SECOND = "worker_0", "worker_1"
POLL = "0.05"


class Process:
    """A script that runs meanwhile; its lines come as it prints them."""

    def __init__(self, side: Side, script: str, *arguments: str) -> None:
        self.name = f"{side.name}: {script}"
        self._process = side.start(HERE / script, *arguments)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._complaints: list[str] = []
        self._threads = [threading.Thread(target=each) for each in (self._listen, self._listen_to_complaints)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _listen_to_complaints(self) -> None:
        assert self._process.stderr is not None
        self._complaints.extend(self._process.stderr)

    def line(self) -> str:
        try:
            line = self._lines.get(timeout=HANGS_SECONDS)
        except queue.Empty:
            line = None
        assert line is not None, f"{self.name} says nothing more. {''.join(self._complaints)[-2000:]}"
        return line

    def order(self, *what: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        assert self.line() == "done"

    def end(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(timeout=HANGS_SECONDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue  # what was not sent is of no use to a process that was killed


Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Process] = []

    def begin(side: Side, script: str, *arguments: str) -> Process:
        started.append(Process(side, script, *arguments))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Where a run lies, and the variables by which a process finds it."""
    if request.param == "disk":
        yield str(tmp_path / "run"), {}
        return
    with local_s3() as s3:
        s3.client().create_bucket(Bucket="live")
        yield "s3://live/run", dict(s3.environment)


@pytest.fixture
def sides(smdebug_python: Path) -> dict[str, Side]:
    found = (ours(SLEEP_AT_MOST=POLL), theirs(smdebug_python, SLEEP_AT_MOST=POLL))
    return {side.name: side for side in found}


def both_say(readers: list[Process], *expected: str) -> None:
    for line in expected:
        assert [reader.line() for reader in readers] == [line] * len(readers)


def at(step: int, *workers: str) -> str:
    """What a reader says of a step that these workers saved."""
    return f"{step} {dict.fromkeys(workers, step + 0.5)} {float(step)}"


@pytest.mark.parametrize(
    ("writer", "place"), [("ours", "disk"), ("theirs", "disk"), ("ours", "s3"), ("theirs", "s3")], indirect=["place"]
)
def test_a_late_worker_is_waited_for(
    sides: dict[str, Side], start: Start, place: tuple[str, dict[str, str]], writer: str
) -> None:
    run, environment = place
    sides = {name: replace(side, environment={**side.environment, **environment}) for name, side in sides.items()}
    readers = [start(side, "live_reader.py", run) for side in sides.values()]
    source = start(sides[writer], "live_writer.py", run)
    both_say(readers, "waits")
    source.order("collections", FIRST)
    source.order("step", 0, FIRST)
    source.order("collections", SECOND)
    both_say(readers, f"2 ['{FIRST}', '{SECOND}']")
    source.order("step", 0, SECOND)
    both_say(readers, at(0, FIRST, SECOND))
    source.order("step", 1, FIRST)  # one step ahead, and later another
    source.order("step", 1, SECOND)
    both_say(readers, at(1, FIRST, SECOND))
    source.order("step", 3, SECOND)
    source.order("step", 3, FIRST)
    both_say(readers, "2 was passed over", at(3, FIRST, SECOND))
    source.order("end")
    both_say(readers, "ended after 3 [0, 1, 3] True")
    assert [process.end() for process in (*readers, source)] == [0, 0, 0]


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_a_worker_that_never_comes_is_waited_for_until_the_end(
    sides: dict[str, Side], start: Start, tmp_path: Path, writer: str
) -> None:
    run = str(tmp_path / "run")
    source = start(sides[writer], "live_writer.py", run)
    for worker in (FIRST, SECOND):
        source.order("collections", worker)
        source.order("step", 0, worker)
    readers = [start(side, "live_reader.py", run) for side in sides.values()]
    both_say(readers, "waits", f"2 ['{FIRST}', '{SECOND}']", at(0, FIRST, SECOND))
    source.order("step", 1, FIRST)
    source.order("step", 2, FIRST)
    source.order("end")
    both_say(readers, at(1, FIRST), at(2, FIRST), "ended after 2 [0, 1, 2] True")


def test_a_run_that_ends_before_all_workers_came(sides: dict[str, Side], start: Start, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    readers = [start(side, "live_reader.py", run) for side in sides.values()]
    source = start(sides["ours"], "live_writer.py", run)
    both_say(readers, "waits")
    source.order("collections", FIRST)
    source.order("step", 0, FIRST)
    source.order("end")
    both_say(readers, "MissingCollectionFiles")


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_a_range_of_a_live_run(sides: dict[str, Side], start: Start, tmp_path: Path, writer: str) -> None:
    run = str(tmp_path / "run")
    source = start(sides[writer], "live_writer.py", run)
    for worker in (FIRST, SECOND):
        source.order("collections", worker)
        source.order("step", 0, worker)
    readers = [start(side, "live_reader.py", run, "1", "3") for side in sides.values()]
    both_say(readers, "waits", f"2 ['{FIRST}', '{SECOND}']")
    for step in (1, 2, 3):
        for worker in (FIRST, SECOND):
            source.order("step", step, worker)
        if step < 3:
            both_say(readers, at(step, FIRST, SECOND))
    source.order("end")
    both_say(readers, "ended after 2 [1, 2] True")


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_a_run_whose_writer_was_killed(sides: dict[str, Side], start: Start, tmp_path: Path, writer: str) -> None:
    """What was whole stays readable; a reader that waits is freed by an end marker of whoever knows of the death."""
    run = str(tmp_path / "run")
    source = start(sides[writer], "live_writer.py", run)
    for worker in (FIRST, SECOND):
        source.order("collections", worker)
        for step in (0, 1):
            source.order("step", step, worker)
    source.order("step", 2, FIRST)
    source.order("begin", 2, SECOND)
    source.order("begin", 3, FIRST)
    source.kill()
    said = [side.run(HERE / "crashed_reader.py", run).splitlines() for side in sides.values()]
    assert said[0] == said[1]
    assert said[0][0] == "[0, 1] [0, 1, 2] ['loss', 'weight']"
    assert said[0][-2:] == ["Step 4 of mode GLOBAL not yet available", "False"]

    readers = [start(side, "live_reader.py", run) for side in sides.values()]
    both_say(readers, "waits", f"2 ['{FIRST}', '{SECOND}']", at(0, FIRST, SECOND), at(1, FIRST, SECOND))
    Path(run, "training_job_end.ts").touch()
    both_say(readers, at(2, FIRST), "ended after 2 [0, 1, 2] True")


def test_no_reader_gives_up_before_there_is_a_run(sides: dict[str, Side], start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    readers = [start(side, "live_reader.py", str(run)) for side in sides.values()]
    both_say(readers, "waits")
    run.mkdir()
    source = start(sides["theirs"], "live_writer.py", str(run))
    for worker in (FIRST, SECOND):
        source.order("collections", worker)
    both_say(readers, f"2 ['{FIRST}', '{SECOND}']")
    source.order("end")
    both_say(readers, "ended after -1 [] True")
    assert [process.end() for process in readers] == [0, 0]
