"""Readers of profiles: the drop-in's, and the real smdebug's on the same files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from smdebug.profiler import (
    LocalAlgorithmMetricsReader,
    LocalSystemMetricsReader,
    S3AlgorithmMetricsReader,
    S3SystemMetricsReader,
    SMProfilerEvents,
    SystemProfilerEventParser,
)
from smdebug.profiler.analysis.notebook_utils import TrainingJob
from smdebug.profiler.utils import TimeUnits

from tests.smdebug.conftest import Peer
from tests.smdebug.profiler_files import FIRST, GAP, MINUTE, NODES, STEP, training, write_profiles, write_timeline, x
from tests.smdebug.s3_here import local_s3
from trackside.contracts.errors import RunNotFoundError

ALWAYS = (0, 4e15)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_profiles(tmp_path_factory.mktemp("profiles"))


def as_rows(events: Any) -> list[list[Any]]:
    return [[e.event_name, e.event_phase, e.start_time, e.duration, e.node_id, e.event_args] for e in events]


@pytest.mark.parametrize(
    ("by", "start", "end"),
    [
        pytest.param("time", 0, 4e15, id="all"),
        pytest.param("time", FIRST + STEP, FIRST + 3 * STEP, id="a part"),
        pytest.param("time", 0, 5, id="before"),
        pytest.param("step", 1, 3, id="steps"),
        pytest.param("step", 90, 95, id="steps that never were"),
    ],
)
def test_events_are_those_that_the_original_finds(
    profiles: Path, peer: Peer, by: str, start: float, end: float
) -> None:
    theirs = peer("timeline", {"folder": str(profiles), "by": by, "start": start, "end": end})["events"]
    reader = LocalAlgorithmMetricsReader(profiles)
    between: Any = reader.get_events_by_step if by == "step" else reader.get_events
    # The original takes the last begin of a group for the begin of an end, whatever its thread is.
    whole = [row for row in as_rows(between(start, end)) if row[1] != "cpu_functions"]
    assert sorted(map(str, whole)) == sorted(str(row) for row in theirs if row[1] != "cpu_functions")


def test_samples_are_those_that_the_original_finds(profiles: Path, peer: Peer) -> None:
    order = {"folder": str(profiles), "start_us": 0, "end_us": 4e15}
    ours = LocalSystemMetricsReader(profiles).get_events(*ALWAYS)
    rows = [[e.type, e.name, e.dimension, e.value, e.node_id, e.timestamp] for e in ours]
    assert sorted(rows) == sorted(peer("system_metrics", order)["events"])
    assert len(rows) == 2 * 20 * 3


def test_halves_of_an_event_belong_to_one_thread(profiles: Path) -> None:
    found = [event for event in LocalAlgorithmMetricsReader(profiles).get_events(*ALWAYS) if event.pid == 3]
    assert {(event.event_name, event.duration) for event in found} == {("half", 20_000), ("inner", 25_000)}
    assert next(event for event in found if event.event_name == "half").event_args == {"a": 1}


@pytest.mark.parametrize(
    ("start", "unit", "kind", "count"),
    [
        pytest.param(MINUTE + 10, TimeUnits.SECONDS, None, 60, id="seconds"),
        pytest.param((MINUTE + 10) * 1000, TimeUnits.MILLISECONDS, "gpu", 20, id="milliseconds, one type"),
        pytest.param((MINUTE + 10) * 10**9, TimeUnits.NANOSECONDS, "cpu", 40, id="nanoseconds"),
        pytest.param(MINUTE + 10, TimeUnits.SECONDS, "none", 0, id="no such type"),
    ],
)
def test_samples_of_a_part(profiles: Path, start: float, unit: TimeUnits, kind: str | None, count: int) -> None:
    factor = {TimeUnits.SECONDS: 1, TimeUnits.MILLISECONDS: 10**3, TimeUnits.NANOSECONDS: 10**9}[unit]
    reader = LocalSystemMetricsReader(profiles, use_in_memory_cache=True)
    for _ in range(2):  # the second time from memory
        assert len(reader.get_events(start, start + 1000 * factor, unit, kind)) == count


def test_a_range_of_steps_that_ends_behind_the_last_one_goes_to_the_end(profiles: Path) -> None:
    reader = LocalAlgorithmMetricsReader(profiles)
    steps = {int((e.event_args or {}).get("step_num", -1)) for e in reader.get_events_by_step(4, 99)}
    assert {4, 5} <= steps
    assert reader.get_events_by_step(5, 4) == []


def test_events_in_a_later_file_of_their_node_are_found(tmp_path: Path) -> None:
    """Also where another node has closed several files in between, so that the next file by time is not the node's."""
    hour = 3600 * 1_000_000
    write_timeline(tmp_path, "1-algo-1", [x("wanted", 1, 0, 10), x("late", 1, hour, 10)])
    for number in range(1, 5):
        write_timeline(tmp_path, "2-algo-2", [x("other", 1, number * hour / 10, 10)])
    found = LocalAlgorithmMetricsReader(tmp_path).get_events(FIRST, FIRST + 100)
    assert [event.event_name for event in found] == ["wanted"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[", id="begun"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b'{"traceEvents": 3}', id="no array"),
        pytest.param(b'[{"ph": "X", "pid": 1}]', id="an event without a time"),
        pytest.param(b'[{"ph": "X", "pid": 1, "name": "a", "ts": "soon", "dur": 1}]', id="a time that is none"),
        pytest.param(b"[7]", id="no event"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
def test_a_damaged_timeline_is_left_out(tmp_path: Path, content: bytes) -> None:
    whole = write_timeline(tmp_path, NODES[0], training(2, is_slow=False))
    whole.with_name(whole.name.replace(NODES[0], NODES[1])).write_bytes(content)
    found = LocalAlgorithmMetricsReader(tmp_path).get_events(*ALWAYS)
    assert {event.node_id for event in found} == {"algo-1-11"}


def test_a_timeline_without_its_end_is_read(tmp_path: Path) -> None:
    path = write_timeline(tmp_path, NODES[0], training(2, is_slow=False))
    path.write_text(path.read_text().rstrip("]\n") + ",\n")
    assert len(LocalAlgorithmMetricsReader(tmp_path).get_events(*ALWAYS)) == len(training(2, is_slow=False)) - 4


def test_the_timeline_of_tensorflow(tmp_path: Path) -> None:
    step = tmp_path / "framework" / "tensorflow" / "detailed_profiling" / "2023111422" / "000000003"
    folder = step / "plugins" / "profile" / "2023_11_14"
    folder.mkdir(parents=True)
    (step / f"11-algo-1_{FIRST}_{FIRST + 900}.metadata").write_bytes(b"")
    with gzip.open(folder / "host.domain.trace.json.gz", "wt") as file:
        json.dump({"traceEvents": [x("op", 1, 5, 7, tid=3)]}, file)
    event = LocalAlgorithmMetricsReader(tmp_path).get_events(*ALWAYS)[0]
    assert (event.start_time, event.duration, event.node_id, event.file_type) == (
        FIRST + 5,
        7,
        "host",
        "TFProfilerMetrics",
    )


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    line = '{"Type":"cpu","Dimension":"Algorithm","Value":4.5,"NodeId":"algo-1","Timestamp":1.5}'
    for name, content, count in (("a", f"{line}\n{line[:30]}", 1), ("b", f"{line}\n{line[:30]}\n", 1), ("c", line, 1)):
        (tmp_path / name).write_text(content)
        parser = SystemProfilerEventParser()
        parser.read_events_from_file(tmp_path / name)
        assert [(event.name, event.value) for event in parser.get_all_events()] == [(None, 4.5)] * count
    (tmp_path / "d").write_text(f"{line[:30]}\n{line}\n")
    with pytest.raises(ValueError, match=r"Can't open profiler system metric file .*/d"):
        SystemProfilerEventParser().read_events_from_file(tmp_path / "d")


def test_a_parser_of_its_own(profiles: Path) -> None:
    parser = SMProfilerEvents()
    parser.read_events_from_file(next(profiles.glob("framework/pevents/*/*algo-1_*")))
    first = parser.get_events_start_time_sorted()[0]
    assert (first.start_time, first.duration, first.pid) == (FIRST, STEP, 7)
    assert parser.get_events_end_time_sorted()[-1].event_name == "Step:ModeKeys.EVAL"
    thread = parser.get_process_info(1).get_thread_info(first.phase_tid)
    assert thread.thread_name == "algo-1-11_0"
    until = datetime.fromtimestamp((FIRST + STEP + GAP / 2) / 1e6, tz=timezone.utc)
    start = datetime.fromtimestamp(0, tz=timezone.utc)
    assert {(e.event_args or {}).get("step_num") for e in parser.get_events_within_range(start, until)} == {"0", None}
    assert json.loads(first.to_json())["dur"] == STEP


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    for reader in (LocalAlgorithmMetricsReader(tmp_path), LocalSystemMetricsReader(tmp_path / "missing")):
        assert reader.get_timestamp_of_first_available_file() == reader.get_timestamp_of_latest_available_file() == 0
        assert reader.get_events(*ALWAYS) == []


def test_the_buffer_may_be_set_by_its_variable(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIME_BUFFER_MICROSECONDS", "5")
    assert LocalSystemMetricsReader(profiles).get_events(MINUTE * 1e6, MINUTE * 1e6 + 3e6)


@pytest.fixture
def bucket(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same profiles in a bucket."""
    with local_s3() as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        s3.client().create_bucket(Bucket="profiles")
        for path in profiles.rglob("*"):
            if path.is_file():
                key = f"job/profiler-output/{path.relative_to(profiles)}"
                s3.client().put_object(Bucket="profiles", Key=key, Body=path.read_bytes())
        yield "s3://profiles/job/profiler-output"


def test_a_bucket_has_what_the_folder_has(bucket: str, profiles: Path) -> None:
    ours = as_rows(S3AlgorithmMetricsReader(bucket).get_events(*ALWAYS))
    assert ours == as_rows(LocalAlgorithmMetricsReader(profiles).get_events(*ALWAYS))
    samples = S3SystemMetricsReader(bucket).get_events(*ALWAYS)
    assert [vars(e) for e in samples] == [vars(e) for e in LocalSystemMetricsReader(profiles).get_events(*ALWAYS)]


class SageMaker:
    """A client that returns the states of one job, one a request, and then the last."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803 - the name of AWS
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"TrainingJobStatus": state, "ProfilerConfig": {"S3OutputPath": "s3://profiles"}}


def test_a_training_job_is_waited_for(bucket: str) -> None:
    waits: list[float] = []
    job = TrainingJob("job", client=SageMaker("InProgress"), sleep=waits.append)
    assert job.profiler_s3_output_path == bucket
    job.wait_for_sys_profiling_data_to_be_available()
    job.wait_for_framework_profiling_data_to_be_available()
    samples, events = job.get_systems_metrics_reader(), job.get_framework_metrics_reader()
    assert waits == []
    assert samples is not None
    assert events is not None
    assert len(samples.get_events(*ALWAYS)) == 120
    assert events.get_events(*ALWAYS)


def test_the_wait_ends_with_the_job(bucket: str) -> None:
    waits: list[float] = []
    job = TrainingJob("other", client=SageMaker("InProgress", "InProgress", "Failed"), sleep=waits.append)
    with pytest.raises(RunNotFoundError, match="The job other ended"):
        job.wait_for_sys_profiling_data_to_be_available()
    assert waits == [10.0]
