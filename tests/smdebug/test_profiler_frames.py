"""Frames, statistics, merged timelines and charts of profiles: the numbers were worked out by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from smdebug.profiler import LocalAlgorithmMetricsReader, LocalSystemMetricsReader
from smdebug.profiler.analysis.notebook_utils import MetricsHistogram, StepHistogram, TrainingJob
from smdebug.profiler.analysis.notebook_utils.heatmap import Heatmap
from smdebug.profiler.analysis.notebook_utils.step_timeline_chart import StepTimelineChart
from smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts
from smdebug.profiler.analysis.python_profile_analysis import PyinstrumentAnalysis, cProfileAnalysis
from smdebug.profiler.analysis.utils.merge_timelines import MergedTimeline, MergeUnit
from smdebug.profiler.analysis.utils.pandas_data_analysis import PandasFrameAnalysis, Resource, StatsBy
from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from smdebug.profiler.analysis.utils.python_profile_analysis_utils import Metrics
from smdebug.profiler.analysis.utils.pytorch_dataloader_analysis import PT_dataloader_analysis
from smdebug.profiler.python_profile_utils import PythonProfileModes

from tests.smdebug.profiler_files import (
    FIRST,
    GAP,
    MINUTE,
    NODES,
    STEP,
    training,
    write_profiles,
    write_python_profiles,
    write_samples,
    write_timeline,
)
from tests.training_lib.local.verdicts import issue
from trackside.contracts.errors import ConfigurationError, RunNotFoundError
from trackside.speed.performance.trace_events import decode_trace
from trackside.storage.local import LocalStore

STEPS = 6
TRAIN, EVAL = "Step:ModeKeys.TRAIN", "Step:ModeKeys.EVAL"


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("pandas")
    return str(write_profiles(tmp_path_factory.mktemp("profiles"), steps=STEPS))


@pytest.fixture
def frame(profiles: str) -> PandasFrame:
    return PandasFrame(profiles)


@pytest.fixture
def analysis(frame: PandasFrame) -> PandasFrameAnalysis:
    return PandasFrameAnalysis(frame.get_all_system_metrics(), frame.get_all_framework_metrics())


def test_frames_have_a_row_a_sample_and_a_row_an_event(frame: PandasFrame) -> None:
    samples, events = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
    assert len(samples) == 2 * 20 * 3
    assert len(events) == 2 * (STEPS * 4 + 1)
    first = events[events["framework_metric"] == TRAIN].iloc[0]
    assert first["start_time"] == "2023-11-14T22:14:02:000000"
    assert first["start_time_us"] == FIRST - MINUTE * 10**6
    assert (first["step"], first["pid"], first["bytes"]) == (0, 7, -1)
    assert len(frame.get_all_system_metrics(["gpu0"])) == 40
    assert set(frame.get_all_framework_metrics([EVAL])["framework_metric"]) == {EVAL}


def test_rows_of_steps_and_of_a_time(frame: PandasFrame) -> None:
    samples, events = frame.get_profiler_data_by_step(1, 2)
    assert sorted(events["step"].unique()) == [1, 2]
    assert set(samples["timestamp_us"]) == {2_250_000}  # the only moment of samples in them
    samples, events = frame.get_profiler_data_by_time(MINUTE * 10**6, MINUTE * 10**6 + 1_000_000)
    assert (len(samples), len(events)) == (6, 0)
    both = frame.get_profiler_data_by_time(FIRST, FIRST + 10**6, cache_metrics=True)
    assert len(frame.get_profiler_data_by_time(0, 1, cache_metrics=True)[0]) == len(both[0]) > 0


def test_what_ran_at_moments(frame: PandasFrame) -> None:
    moments = ["2023-11-14T22:14:02:015000", "2023-11-14T22:14:02:040000"]
    shares, details, steps = frame.get_framework_metrics_by_timesteps(moments)
    assert shares == {"cpu_functions": 1.0, "DataLoaderIter::GetNext": pytest.approx(40 / 90)}
    assert details == {"DataLoaderIter::GetNext": 40_000, "half": 40_000, "inner": 50_000}
    assert steps == {TRAIN: 4 * STEP}
    shares, by_name = frame.get_framework_metrics_by_begin_and_end_timesteps(moments[:1], moments[1:])
    assert shares["cpu_functions"] == by_name["inner"] == 1.0
    assert by_name["half"] == pytest.approx(20 / 25)


def test_steps(analysis: PandasFrameAnalysis) -> None:
    found = analysis.get_step_statistics().set_index("training_phase")
    # Step 3 takes five times as long on one node; from there on the nodes are apart by four steps.
    first, apart = STEP, 5 * STEP
    durations = [first, first, first, apart, apart, apart]
    assert found.loc[TRAIN, "duration_mean_us"] == pytest.approx(sum(durations) / 6)
    assert found.loc[TRAIN, "duration_p50_us"] == pytest.approx((first + apart) / 2)
    assert found.loc[TRAIN, "duration_max_us"] == apart
    by_metric = analysis.get_step_statistics(StatsBy.FRAMEWORK_METRICS)
    assert set(by_metric["framework_metric"]) == {TRAIN, EVAL, "DataLoaderIter::GetNext", "half", "inner"}
    assert set(analysis.get_step_statistics(StatsBy.PROCESS)["process"]) >= {TRAIN, "cpu_functions"}
    assert analysis.get_step_statistics("step") is None


def test_events_without_a_step_have_that_which_holds_them(analysis: PandasFrameAnalysis) -> None:
    events = analysis.framework_metrics_df
    assert sorted(events[events["framework_metric"] == "half"]["step"].unique()) == list(range(STEPS))


def test_the_job(analysis: PandasFrameAnalysis) -> None:
    found = analysis.get_job_statistics()
    loop = STEPS * (STEP + GAP) + 4 * STEP + STEP
    assert found["training_loop_duration"] == loop
    assert found["initialization"] == 1_750_000  # from the first sample on
    assert found["job_duration"] == 19_000_000
    assert found["finalization"] == 19_000_000 - 1_750_000 - loop
    assert sum(found[f"{part}_%"] for part in ("initialization", "training_loop", "finalization")) == pytest.approx(100)
    assert "training_loop_start" in repr(found)
    assert dict(found)["start_time"] == "2023-11-14T22:14:00:250000"


def test_use_of_machines(analysis: PandasFrameAnalysis) -> None:
    found = analysis.get_utilization_stats(Resource.GPU).set_index("nodeID")
    assert list(found["utilization_mean"]) == [pytest.approx(87.5)] * 2
    assert list(found["utilization_min"]) == [40, 40]
    assert set(analysis.get_utilization_stats()["Resource"]) == {"cpu", "gpu"}
    assert analysis.get_utilization_stats([Resource.NETWORK]).empty
    assert analysis.get_utilization_stats("cpu") is None
    by_phase = analysis.get_utilization_stats(Resource.GPU, by=StatsBy.TRAINING_PHASE)
    assert f"Before {TRAIN}" in set(by_phase["Training_phase"])


def test_ranges_of_use(analysis: PandasFrameAnalysis) -> None:
    found = analysis.get_device_usage_stats(Resource.GPU)
    assert [list(row) for row in found.to_numpy()] == [["gpu", "algo-1", 19, 1], ["gpu", "algo-2", 19, 1]]
    assert list(found.columns[2:]) == [(90, 100), (10, 90)]
    for wrong in ([(30,)], [], ((0, 10), (10, 90))):
        assert analysis.get_device_usage_stats(utilization_ranges=wrong).empty
    assert analysis.get_device_usage_stats("cpu").empty


def test_stretches_of_phases(analysis: PandasFrameAnalysis) -> None:
    whole = analysis.get_training_phase_intervals()
    # The first node evaluates while the second one trains.
    gap = f"Between {EVAL} and {TRAIN}"
    assert list(whole["phase"]) == [f"Before {TRAIN}", TRAIN, EVAL, gap, TRAIN, gap, EVAL, f"After {EVAL}"]
    assert (whole["start_time_us"] <= whole["end_time_us"]).all()
    assert analysis.get_training_phase_intervals(EVAL)["phase"].iloc[0] == f"Before {EVAL}"
    assert analysis.get_training_phase_intervals("Step:ModeKeys.PREDICT") is None
    assert analysis.get_training_phase_intervals(3) is None


def test_a_run_without_steps(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = PandasFrame(str(write_samples(tmp_path)))
    analysis = PandasFrameAnalysis(frame.get_all_system_metrics(), frame.get_all_framework_metrics())
    assert analysis.get_step_statistics().empty
    assert analysis.get_utilization_stats(by=StatsBy.TRAINING_PHASE).empty
    with pytest.raises(ValueError, match=r"No step of Step:ModeKeys\.TRAIN"):
        analysis.get_job_statistics()


def test_the_frames_of_the_caller_stay_as_they_are(frame: PandasFrame) -> None:
    samples, events = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
    columns = list(samples.columns), list(events.columns)
    PandasFrameAnalysis(samples, events).get_device_usage_stats()
    assert (list(samples.columns), list(events.columns)) == columns


def test_without_pandas_the_error_has_the_command(profiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError, match="pip install pandas"):
        PandasFrame(profiles)


def test_data_loaders(frame: PandasFrame, capsys: pytest.CaptureFixture[str]) -> None:
    loaders = PT_dataloader_analysis(frame)
    assert loaders.analyze_dataloader_getnext() is None
    late = loaders.analyze_batchtime()
    assert list(late["BatchTime_in_seconds"]) == [(5 * STEP + GAP) / 1e6]
    assert loaders.analyze_dataloaderWorkers() is loaders.analyze_dataloaderIter_initialization() is None
    shown = capsys.readouterr().out
    assert "Total number of DataLoaderIter::GetNext calls: 12" in shown
    assert "DataLoaderWorker processes are not present" in shown
    assert "<svg" in loaders.plot_the_window(0, 4e15)._repr_html_()


@pytest.mark.parametrize(
    ("unit", "start", "end"),
    [
        pytest.param(MergeUnit.TIME, FIRST, FIRST + 20_000_000, id="time"),
        pytest.param("step", 1, 3, id="steps"),
    ],
)
def test_a_merged_timeline_has_every_event_once(
    profiles: str, tmp_path: Path, unit: MergeUnit | str, start: int, end: int
) -> None:
    name = MergedTimeline(profiles, output_directory=str(tmp_path)).merge_timeline(start, end, unit)
    document = json.loads(Path(name).read_text())
    reader = LocalAlgorithmMetricsReader(profiles)
    events = reader.get_events(start, end) if unit is MergeUnit.TIME else reader.get_events_by_step(start, end)
    merged = list(decode_trace(Path(name).read_bytes(), key=name))
    assert sorted((e.name, e.start, e.duration, e.phase) for e in merged) == sorted(
        (e.event_name, e.start_time, e.duration, e.event_phase) for e in events
    )
    assert all(event["cat"] for event in document if event["ph"] != "M"), "readers of torch's traces group by it"
    moments = [event["ts"] for event in document if event["ph"] != "M"]
    assert moments == sorted(moments)
    # Each node has a thread of its own.
    threads = {e["args"]["name"] for e in document if e["name"] == "thread_name"}
    assert {"algo-1-11_0", "algo-2-12_0"} <= threads


def test_a_moment_in_which_a_gpu_had_little_to_do_is_marked(profiles: str, tmp_path: Path) -> None:
    merged = MergedTimeline(profiles, output_directory=str(tmp_path))
    document = json.loads(Path(merged.merge_timeline(0, 4 * 10**15)).read_text())
    marks = [event for event in document if event["ph"] == "i"]
    assert [(mark["ts"], mark["args"]["gpu0_GPUUtilization_algo-2"]) for mark in marks] == [
        ((MINUTE + 5.25) * 1e6, 40.0)
    ]
    assert len([event for event in document if event["ph"] == "C"]) == 120
    empty: dict[str, Any] = {}
    for nothing in (empty, None):
        name = merged.merge_timeline(0, 4 * 10**15, sys_metrics_filter=nothing)
        assert {event["ph"] for event in json.loads(Path(name).read_text())} == {"M", "X"}


def _moved_by(folder: Path, node: str, ahead: int) -> None:
    """Let the clock of one node of written profiles be ahead by some microseconds."""
    for path in folder.rglob(f"*{node}_pythontimeline.json"):
        events = json.loads(path.read_text())
        events[0]["args"]["start_time_since_epoch_in_micros"] += ahead
        end = int(path.name.partition("_")[0]) + ahead
        path.rename(path.with_name(f"{end}_{node}_pythontimeline.json")).write_text(json.dumps(events))


@pytest.mark.parametrize("ahead", [0, 90_000_000], ids=["one clock", "a minute and a half ahead"])
def test_machines_are_put_on_one_clock(tmp_path: Path, ahead: int) -> None:
    node = NODES[1]
    for each in NODES:
        write_timeline(tmp_path, each, training(12, is_slow=False))
    _moved_by(tmp_path, node, ahead)
    name = MergedTimeline(str(tmp_path)).merge_timeline(FIRST, FIRST + 10**7)
    merged = list(decode_trace(Path(name).read_bytes(), key=name))
    starts: dict[str, list[float]] = {}
    for event in merged:
        if event.phase == TRAIN:
            starts.setdefault((event.arguments or {})["step_num"], []).append(event.start)
    assert len(starts) == 12
    for moments in starts.values():
        assert len(moments) == 2
        assert moments[0] == pytest.approx(moments[1], abs=1)


def test_what_rules_found_is_marked_at_its_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for each in NODES:
        write_timeline(run / "profiler-output", each, training(24, is_slow=False))
    LocalStore(run).put("rule-output/verdicts.jsonl", f"{issue('data-starvation').to_json()}\n".encode())
    name = MergedTimeline(str(run / "profiler-output")).merge_timeline(0, 4 * 10**15)
    document = json.loads(Path(name).read_text())
    (mark,) = [event for event in document if event["ph"] == "i"]
    (end,) = {
        event["ts"] + event["dur"]
        for event in document
        if event.get("args", {}).get("step_num") == "20" and event["name"] == TRAIN
    }
    assert (mark["name"], mark["s"], mark["ts"]) == ("data-starvation", "g", end)
    assert mark["args"]["step"] == 20
    # Profiles of the original's, without rules of ours beside them, have none.
    for each in NODES:
        write_timeline(tmp_path / "alone", each, training(24, is_slow=False))
    name = MergedTimeline(str(tmp_path / "alone")).merge_timeline(0, 4 * 10**15)
    assert not [event for event in json.loads(Path(name).read_text()) if event["ph"] == "i"]


def _samples(folder: str) -> LocalSystemMetricsReader:
    return LocalSystemMetricsReader(folder)


def _events(folder: str) -> LocalAlgorithmMetricsReader:
    return LocalAlgorithmMetricsReader(folder)


def _metrics_histogram(folder: str) -> Any:
    chart = MetricsHistogram(_samples(folder))
    chart.plot(select_dimensions=["GPU"], select_events=["total"])
    assert {name: len(each["total"]) for name, each in chart.system_metrics.items()} == {
        "GPUUtilization-nodeid:algo-1": 20,
        "GPUUtilization-nodeid:algo-2": 20,
    }
    chart.update_data(4e15)
    return chart


def _step_histogram(folder: str) -> Any:
    chart = StepHistogram(_events(folder))
    chart.plot()
    slow = chart.step_metrics[f"{TRAIN}-nodeid:algo-2-12"]
    assert max(slow) == pytest.approx(0.5)  # an outlier is in it
    chart.plot(show_workers=False, select_metrics=["TRAIN"])
    assert len(chart.step_metrics[TRAIN]) == 2 * STEPS
    chart.update_data(chart.last_timestamp)
    assert len(chart.step_metrics[TRAIN]) == 2 * STEPS
    return chart


def _step_timeline(folder: str) -> Any:
    chart = StepTimelineChart(_events(folder))
    assert chart.steps_np.shape == (2 * STEPS + 2, 3)
    return chart


def _timeline(folder: str) -> Any:
    chart = TimelineCharts(_samples(folder), _events(folder), select_dimensions=["CPU"], select_events=["total"])
    times, values = chart.system_metrics["CPUUtilization-nodeid:algo-1"]["total"]
    assert (len(times), values[0]) == (20, pytest.approx(47.5))
    spent = chart.find_time_annotations([1, 4])
    assert spent[f"{TRAIN}_3"] == pytest.approx(0.6)
    assert chart.find_time_annotations([]) == {}
    chart.plot_detailed_profiler_data([1, 4])
    assert "cpu_functions" in chart.svg
    return chart


def _heatmap(folder: str) -> Any:
    chart = Heatmap(_samples(folder))
    names = {"CPUUtilization": ("cpu0", "cpu1", "total"), "GPUUtilization": ("gpu0", "total")}
    nodes = ("algo-1", "algo-2")
    assert set(chart.rows) == {f"{d}-nodeid:{n}_{each}" for d, known in names.items() for n in nodes for each in known}
    return chart


@pytest.mark.parametrize("chart", [_metrics_histogram, _step_histogram, _step_timeline, _timeline, _heatmap])
def test_charts_are_drawn_without_a_script(profiles: str, chart: Callable[[str], Any]) -> None:
    page = chart(profiles)._repr_html_()
    assert page.count("<svg") == page.count("</svg>") > 0
    assert "<script" not in page
    assert "nan" not in page


def test_charts_of_an_empty_run(tmp_path: Path) -> None:
    samples, events = _samples(str(tmp_path)), _events(str(tmp_path))
    assert Heatmap(samples)._repr_html_() == ""
    assert "no numbers" in StepTimelineChart(events)._repr_html_()
    assert TimelineCharts(samples, events)._repr_html_() == ""


def test_profiles_of_python_code(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    found = cProfileAnalysis(str(write_python_profiles(tmp_path)))
    assert found.list_available_node_ids() == ["11-algo-1"]
    assert list(found.list_profile_stats()["start_mode"]) == ["prestepzero", "train", "train", "train"]
    of_two = found.fetch_profile_stats_by_step(1, 2)
    calls = next(each for each in of_two.function_stats_list if "sorted" in each.function_name)
    assert calls.total_calls == 2
    assert isinstance(of_two.get_function_stats(), pandas.DataFrame)
    assert found.fetch_profile_stats_by_step(7) is None
    assert found.fetch_profile_stats_by_time(FIRST / 1e6 + 0.1, FIRST / 1e6 + 0.2) is not None  # within a profile
    assert set(found.fetch_profile_stats_by_job_phase()) == {"initialization", "training_loop", "finalization"}
    pair = PythonProfileModes.TRAIN, PythonProfileModes.POST_HOOK_CLOSE
    assert pair in found.fetch_profile_stats_by_training_phase()
    with pytest.raises(TypeError, match="must be a Metrics"):
        of_two.print_top_n_functions("tottime")
    of_two.print_top_n_functions(Metrics.TOTAL_TIME, 3)
    assert PyinstrumentAnalysis(str(tmp_path / "framework" / "pytorch" / "cprofile")).list_profile_stats().empty
    with pytest.raises(NotADirectoryError):
        cProfileAnalysis(str(tmp_path / "missing"))


class SageMaker:
    """A client that returns one job in a state."""

    def __init__(self, status: str, **configuration: str) -> None:
        self.job = {"TrainingJobStatus": status, "ProfilerConfig": configuration}

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803 - the name of AWS
        assert TrainingJobName == "job"
        return self.job


def test_a_training_job() -> None:
    job = TrainingJob("job", client=SageMaker("Completed", S3OutputPath="s3://bucket/prefix/"))
    assert job.profiler_s3_output_path == "s3://bucket/prefix/job/profiler-output"
    assert job.get_systems_metrics_reader() is None
    with pytest.raises(RunNotFoundError, match="has no profiler"):
        TrainingJob("job", client=SageMaker("InProgress"))
