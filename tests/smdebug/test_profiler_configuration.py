"""`profilerconfig.json` by the old names: every key, never run as code, changed while the training goes on."""

from __future__ import annotations

import json
import pstats
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from smdebug.core.modes import ModeKeys
from smdebug.core.tfevent.timeline_file_writer import TimelineFileWriter
from smdebug.core.utils import FRAMEWORK
from smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from smdebug.profiler.hvd_trace_file_rotation import HvdTraceFileRotation
from smdebug.profiler.profiler_config_parser import (
    MetricsCategory,
    ProfilerConfigParser,
    get_profiler_config_parser,
    reset_profiler_config_parser,
)
from smdebug.profiler.profiler_constants import (
    CLOSE_FILE_INTERVAL_DEFAULT,
    FILE_OPEN_FAIL_THRESHOLD_DEFAULT,
    MAX_FILE_SIZE_DEFAULT,
    TF_DATALOADER_START_FLAG_FILENAME,
)
from smdebug.profiler.python_profile_utils import StepPhase, cProfileTimer
from smdebug.profiler.python_profiler import cProfileDefaultPythonProfiler, cProfilePythonProfiler

Write = Callable[[Any], None]
NOW = 1_700_000_000.0
DETAILED, LOADER, PYTHON, SMDDP = MetricsCategory


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the file that the parser reads: a text, or the parameters of a document."""
    path = tmp_path / "profilerconfig.json"
    monkeypatch.setenv("SMPROFILER_CONFIG_PATH", str(path))

    def written(content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps({"ProfilingParameters": content})
        path.write_text(text, "utf-8")

    return written


@pytest.mark.parametrize(
    ("content", "is_on"),
    [
        pytest.param({"LocalPath": "/tmp/x"}, True, id="a folder alone"),
        pytest.param('{"profilingPARAMETERS": {"localpath": "/x"}}', True, id="keys in any case"),
        pytest.param('{"ProfilingParameters": {"LocalPath": "/x"}, "DisableProfiler": false}', True, id="not disabled"),
        pytest.param({"DetailedProfilingConfig": "no object"}, True, id="a part with a mistake"),
        pytest.param('{"ProfilingParameters": {"LocalPath": "/x"}, "DisableProfiler": true}', False, id="disabled"),
        pytest.param({}, False, id="no parameters"),
        pytest.param("{}", False, id="nothing"),
        pytest.param("{1, 2}", False, id="no JSON"),
        pytest.param("[]", False, id="no object"),
    ],
)
def test_is_on_and_off(write: Write, content: Any, *, is_on: bool) -> None:
    write(content)
    parser = ProfilerConfigParser()
    assert parser.profiling_enabled is is_on
    assert (parser.config is not None) is is_on
    assert not parser.should_save_metrics(DETAILED, 3)


def test_without_a_file_it_is_off_until_one_comes(write: Write) -> None:
    parser = ProfilerConfigParser()
    assert not parser.profiling_enabled
    write({"DetailedProfilingConfig": '{"StartStep": 5}'})
    parser.load_config()
    assert parser.should_save_metrics(DETAILED, 5)


@pytest.mark.parametrize(
    ("category", "part", "step", "is_wanted"),
    [
        pytest.param(DETAILED, {"StartStep": 3, "NumSteps": 2}, 3, True, id="first step"),
        pytest.param(DETAILED, {"StartStep": 3, "NumSteps": 2}, 4, True, id="last step"),
        pytest.param(DETAILED, {"StartStep": 3, "NumSteps": 2}, 5, False, id="behind it"),
        pytest.param(DETAILED, {"StartStep": 3, "NumSteps": 2}, 2, False, id="before it"),
        pytest.param(DETAILED, {"StartStep": 0}, 0, True, id="from step 0"),
        pytest.param(DETAILED, {"NumSteps": "2"}, 7, True, id="numbers as texts"),
        pytest.param(DETAILED, {"StartTimeInSecSinceEpoch": NOW - 1, "DurationInSeconds": 5}, 7, True, id="time"),
        pytest.param(DETAILED, {"StartTimeInSecSinceEpoch": NOW - 9, "DurationInSeconds": 5}, 7, False, id="over"),
        pytest.param(DETAILED, {"StartTimeInSecSinceEpoch": NOW + 1}, 7, False, id="later"),
        pytest.param(DETAILED, {"StartStep": 3, "DurationInSeconds": 5}, 3, False, id="steps and time"),
        pytest.param(DETAILED, {"StartStep": "three"}, 3, False, id="no number"),
        pytest.param(DETAILED, {"StartTimeInSecSinceEpoch": "nan"}, 3, False, id="no moment"),
        pytest.param(DETAILED, {}, 3, False, id="empty"),
        pytest.param(LOADER, {"StartStep": 3, "MetricsRegex": "Iter.*"}, 3, True, id="a name that matches"),
        pytest.param(LOADER, {"StartStep": 3, "MetricsRegex": r"iter\D"}, 3, True, id="a class in a regex"),
        pytest.param(LOADER, {"StartStep": 3, "MetricsRegex": "worker"}, 3, False, id="another name"),
        pytest.param(LOADER, {"StartStep": 3, "MetricsRegex": "*"}, 3, False, id="no regex"),
        pytest.param(PYTHON, {"StartStep": 3, "ProfilerName": "Pyinstrument"}, 3, True, id="a profiler"),
        pytest.param(PYTHON, {"StartStep": 3, "ProfilerName": "other"}, 3, False, id="no profiler"),
        pytest.param(PYTHON, {"StartStep": 3, "cProfileTimer": "sundial"}, 3, False, id="no timer"),
        pytest.param(PYTHON, {"ProfilerName": "cprofile"}, 3, False, id="without a range"),
        pytest.param(SMDDP, {"StartStep": 3}, 3, True, id="data parallel"),
        pytest.param(SMDDP, {"StartStep": 4}, 3, False, id="data parallel, later"),
    ],
)
@pytest.mark.parametrize("form", [json.dumps, str, dict], ids=["JSON", "Python's text", "object"])
def test_a_part_is_at_work_in_its_range(
    write: Write, category: MetricsCategory, part: dict[str, Any], step: int, form: Callable[..., Any], *,
    is_wanted: bool
) -> None:  # fmt: skip
    names = ("DetailedProfilingConfig", "DataloaderProfilingConfig", "PythonProfilingConfig")
    name = dict(zip(MetricsCategory, (*names, "SMDataParallelProfilingConfig"), strict=True))[category]
    write({name: form(part)})
    parser = ProfilerConfigParser()
    found = parser.should_save_metrics(category, step, metrics_name="IterGetNext", current_time=NOW)
    assert found is is_wanted
    others = [each for each in MetricsCategory if each is not category]
    assert not any(parser.should_save_metrics(each, step, current_time=NOW) for each in others)


def test_nothing_is_run(write: Write, tmp_path: Path) -> None:
    """The original runs the text of a part as Python code."""
    trace = tmp_path / "was run"
    write({"DetailedProfilingConfig": f"{{'StartStep': open({str(trace)!r}, 'w') and 3}}"})
    parser = ProfilerConfigParser()
    assert parser.profiling_enabled
    assert not parser.should_save_metrics(DETAILED, 3)
    assert not trace.exists()


def test_files_of_timelines(write: Write) -> None:
    numbers = {"RotateMaxFileSizeInBytes": "3e2", "RotateFileCloseIntervalInSeconds": 0.5, "FileOpenFailThreshold": "2"}
    write({"LocalPath": "/Some/Place", **numbers})
    config = ProfilerConfigParser().config
    assert config is not None
    policy = config.trace_file.rotation_policy
    assert (policy.file_max_size, policy.file_close_interval) == (300, 0.5)
    assert (config.local_path, config.trace_file.file_open_fail_threshold) == ("/Some/Place", 2)
    write({"LocalPath": "/Some/Place", **dict.fromkeys(numbers, "many")})
    config = ProfilerConfigParser().config
    assert config is not None
    policy = config.trace_file.rotation_policy
    assert (policy.file_max_size, policy.file_close_interval) == (MAX_FILE_SIZE_DEFAULT, CLOSE_FILE_INTERVAL_DEFAULT)
    assert config.trace_file.file_open_fail_threshold == FILE_OPEN_FAIL_THRESHOLD_DEFAULT
    assert config.local_path == "/Some/Place"


def test_a_range_that_has_begun_goes_on_until_the_file_changes(write: Write) -> None:
    write({"DetailedProfilingConfig": '{"NumSteps": 2}'})
    parser = ProfilerConfigParser()
    seen = []
    for step in range(10, 18):
        if step == 14:
            write({"DetailedProfilingConfig": '{"StartStep": 16}'})
        parser.load_config()
        seen.append(parser.should_save_metrics(DETAILED, step))
    assert seen == [True, True, False, False, False, False, True, False]
    write("{}")
    parser.load_config()
    assert not parser.profiling_enabled


def test_model_parallel_switches_detailed_profiling_off(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"DetailedProfilingConfig": '{"StartStep": 3}', "SMDataParallelProfilingConfig": '{"StartStep": 3}'})
    monkeypatch.setenv("SM_HPS", '{"mp_parameters": {"partitions": 2}}')
    parser = ProfilerConfigParser()
    assert not parser.should_save_metrics(DETAILED, 3)
    assert parser.should_save_metrics(SMDDP, 3)


def test_one_parser_a_process(write: Write) -> None:
    reset_profiler_config_parser()
    write({"LocalPath": "/x"})
    parser = get_profiler_config_parser(FRAMEWORK.PYTORCH)
    assert get_profiler_config_parser(FRAMEWORK.PYTORCH) is parser
    reset_profiler_config_parser()
    assert get_profiler_config_parser(FRAMEWORK.PYTORCH) is not parser
    reset_profiler_config_parser()


def test_python_functions_of_the_wanted_steps(write: Write, tmp_path: Path) -> None:
    write({"LocalPath": str(tmp_path), "PythonProfilingConfig": '{"StartStep": 1, "NumSteps": 2}'})
    parser = ProfilerConfigParser(FRAMEWORK.PYTORCH)
    for step in range(4):
        parser.handle_step_start_python_profiling(ModeKeys.TRAIN, step)
        parser.handle_forward_pass_end_python_profiling(ModeKeys.TRAIN, step)
        parser.handle_step_end_python_profiling(ModeKeys.TRAIN, step)
    stored = sorted((tmp_path / "framework" / "pytorch" / "cprofile").glob("*/*/python_stats"))
    spans = sorted(file.parent.name.split("_") for file in stored)
    assert [[*start.split("-")[:3], *end.split("-")[:3]] for start, end in spans] == [
        ["train", "1", "forwardpassend", "train", "1", "stepend"],
        ["train", "1", "stepend", "train", "2", "stepstart"],
        ["train", "1", "stepstart", "train", "1", "forwardpassend"],
        ["train", "2", "forwardpassend", "train", "2", "stepend"],
        ["train", "2", "stepend", "train", "3", "stepstart"],
        ["train", "2", "stepstart", "train", "2", "forwardpassend"],
    ]
    assert all(pstats.Stats(str(file)) for file in stored)


def test_the_default_profiler_counts_another_time_a_step(tmp_path: Path) -> None:
    profiler = cProfileDefaultPythonProfiler(str(tmp_path), FRAMEWORK.PYTORCH)
    timers = []
    for step in ("*", 9, 10, 11, 12):
        profiler.start_profiling(StepPhase.STEP_START, start_step=step)
        timers.append(profiler._timer())
        profiler.stop_profiling(StepPhase.STEP_END, end_step=step)
    assert timers == ["total_time", "total_time", "cpu_time", "off_cpu_time", "total_time"]


def test_another_profiler_at_work_goes_on(tmp_path: Path) -> None:
    first = cProfilePythonProfiler(str(tmp_path / "first"), FRAMEWORK.PYTORCH, cProfileTimer.TOTAL_TIME)
    second = cProfilePythonProfiler(str(tmp_path / "second"), None, cProfileTimer.TOTAL_TIME)
    first.start_profiling(StepPhase.START)
    second.start_profiling(StepPhase.START)
    assert not second.is_profiling
    second.stop_profiling(StepPhase.END)
    first.stop_profiling(StepPhase.END)
    assert list((tmp_path / "first").rglob("python_stats"))
    assert not (tmp_path / "second").exists()


def test_the_flag_for_data_loaders(write: Write, tmp_path: Path) -> None:
    write({"LocalPath": str(tmp_path), "DataloaderProfilingConfig": '{"StartStep": 2}'})
    parser = ProfilerConfigParser()
    assert parser.write_tf_dataloader_flag(TF_DATALOADER_START_FLAG_FILENAME) is True
    assert parser.write_tf_dataloader_flag(TF_DATALOADER_START_FLAG_FILENAME) is False
    assert list(tmp_path.rglob(TF_DATALOADER_START_FLAG_FILENAME))
    write({"LocalPath": str(tmp_path)})
    assert ProfilerConfigParser().write_tf_dataloader_flag("other") is None
    assert not list(tmp_path.rglob("other"))


# Timelines


def events_in(folder: Path) -> list[Any]:
    """Return the events that the old reader finds."""
    reader = LocalAlgorithmMetricsReader(str(folder))
    reader.refresh_event_file_list()
    return list(reader.get_events(0, 4e15))


@pytest.mark.parametrize(
    ("parameters", "fewest", "most"),
    [
        pytest.param({}, 1, 1, id="one file"),
        pytest.param({"RotateMaxFileSizeInBytes": 800}, 3, 20, id="by size"),
        pytest.param({"RotateFileCloseIntervalInSeconds": 5}, 2, 20, id="by time"),
    ],
)
def test_events_are_read_as_they_were_written(
    write: Write, tmp_path: Path, parameters: dict[str, Any], fewest: int, most: int
) -> None:
    write({"LocalPath": str(tmp_path), **parameters})
    writer = TimelineFileWriter(ProfilerConfigParser())
    start = time.time()
    for number in range(20):
        phase = "Step:ModeKeys.TRAIN" if number % 2 else "Forward"
        writer.write_trace_events(start + number, phase, f"op {number}", duration=0.5, step_num=str(number))
    writer.flush()
    writer.close()
    files = list((tmp_path / "framework" / "pevents").rglob("*_pythontimeline.json"))
    assert fewest <= len(files) <= most
    assert not list(tmp_path.rglob("*.tmp"))
    found = sorted(events_in(tmp_path), key=lambda event: int(event.event_args["step_num"]))
    assert [event.event_name for event in found] == [f"op {number}" for number in range(20)]
    assert {event.event_phase for event in found} == {"Forward", "Step:ModeKeys.TRAIN"}
    assert [event.start_time for event in found] == pytest.approx([(start + n) * 1e6 for n in range(20)], abs=2)
    assert {event.duration for event in found} == {500_000}


def test_nothing_is_written_where_that_fails_or_profiling_is_off(write: Write, tmp_path: Path) -> None:
    write({"LocalPath": "/dev/null/none", "FileOpenFailThreshold": 2})
    writer = TimelineFileWriter(ProfilerConfigParser())
    for number in range(300):  # more than the queue holds
        writer.write_trace_events(NOW + number, "phase", "op")
    writer.close()
    writer.close()
    write("{}")
    writer = TimelineFileWriter(ProfilerConfigParser())
    writer.write_trace_events(NOW, "phase", "op")
    writer.close()
    assert not list(tmp_path.rglob("*timeline*"))


def test_horovods_timeline_becomes_a_timeline_of_the_profiler(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Horovod's times are of the monotonic clock, and its file is an array that is never closed."""
    moment = time.monotonic() * 1e6
    lines = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "DistributedAdam"}},
        {"name": "process_sort_index", "ph": "M", "pid": 1, "args": {"sort_index": 1}},
        {"ph": "X", "name": "ALLREDUCE", "ts": moment, "dur": 700, "pid": 1, "args": {"op": "sum"}},
        {"ph": "B", "name": "NEGOTIATE", "ts": moment + 1000, "pid": 1},
        {"ph": "E", "ts": moment + 1500, "pid": 1},
    ]
    source = tmp_path / "horovod.json"
    text = "[\n" + "".join(f"{json.dumps(line)},\n" for line in lines)
    source.write_text(text + '{"ph": "X", "na', "utf-8")  # the rest of a line is still to come
    monkeypatch.setenv("HOROVOD_TIMELINE", str(source))
    write({"LocalPath": str(tmp_path / "profiles")})
    rotation = HvdTraceFileRotation(ProfilerConfigParser())
    assert rotation.enabled
    rotation.close()
    found = events_in(tmp_path / "profiles")
    assert [(e.event_name, e.event_phase, round(e.duration)) for e in found] == [
        ("ALLREDUCE", "DistributedAdam", 700),
        ("NEGOTIATE", "DistributedAdam", 500),
    ]
    assert abs(found[0].start_time / 1e6 - time.time()) < 60, "moments since the epoch"
    assert not any(thread.name.startswith("hvd") for thread in threading.enumerate())


@pytest.mark.parametrize("has_file", [True, False])
def test_horovod_is_not_read_where_nobody_asked(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_file: bool
) -> None:
    if has_file:
        monkeypatch.setenv("HOROVOD_TIMELINE", str(tmp_path / "horovod.json"))
        write("{}")
    else:
        monkeypatch.delenv("HOROVOD_TIMELINE", raising=False)
        write({"LocalPath": str(tmp_path)})
    rotation = HvdTraceFileRotation(ProfilerConfigParser())
    assert not rotation.enabled
    rotation.close()
