"""Statistics of the frames of a `PandasFrame`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from smdebug import not_offered
from smdebug.core.logger import get_logger
from trackside.speed.performance.profile import pandas_module


class StatsBy(Enum):
    """The groups of which statistics are made."""

    TRAINING_PHASE = "training_phase"
    FRAMEWORK_METRICS = "framework_metric"
    PROCESS = "process"


class Resource(Enum):
    """A part of a machine."""

    CPU = "cpu"
    GPU = "gpu"
    IO = "i/o"
    NETWORK = "network"
    MEMORY = "memory"


STEP = "Step:ModeKeys"
_TRAINING = ("Step:ModeKeys.TRAIN", "Step:ModeKeys.GLOBAL")
_STATISTICS = ("mean", "min", "max", "p50", "p95", "p99")
_RANGES = ((90, 100), (10, 90), (0, 10))
_INTERVAL = ["start_time_us", "end_time_us", "phase"]


class JobStats(dict[str, Any]):
    """Times of a job by name, shown as a table."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:24} {value}" for name, value in self.items())


class PandasFrameAnalysis:
    """Statistics of a run.

    Args:
        system_df: Samples of machines, from a `PandasFrame`. It is not changed.
        framework_df: Events of timelines, from the same `PandasFrame`. It is not changed.
    """

    def __init__(self, system_df: Any, framework_df: Any) -> None:
        self._pandas = pandas_module("PandasFrameAnalysis")
        self.sys_metrics_df, self.framework_metrics_df = system_df.copy(), framework_df.copy()
        events = self.framework_metrics_df
        events["duration_us"] = events["end_time_us"] - events["start_time_us"]
        events["step"] = self._steps_of_events()

    def get_job_statistics(self) -> JobStats:
        """Return begin, end and seconds of the job, its initialization, training loop and finalization.

        Durations are in microseconds; `initialization_%` and its like are shares of the whole. The training loop begins
        with the first step. Without samples of a machine, what needs them is NaN.

        Raises:
            ValueError: The frames hold no training step.
        """
        samples, events = self.sys_metrics_df, self.framework_metrics_df
        steps = events[events["framework_metric"].isin(_TRAINING) & (events["step"] != -1)]
        if steps.empty:
            raise ValueError(f"No step of {' or '.join(_TRAINING)}. `trackside export RUN --to timeline` writes steps.")
        first = steps.loc[steps["start_time_us"].idxmin()]
        last = events.loc[events["end_time_us"].idxmax()]
        begin, end = samples["timestamp_us"].min(), samples["timestamp_us"].max()
        found = JobStats(
            start_time=samples["timestamp"].min(),
            end_time=samples["timestamp"].max(),
            job_duration=end - begin,
            training_loop_start=first["start_time"],
            training_loop_end=last["end_time"],
            training_loop_duration=last["end_time_us"] - first["start_time_us"],
            initialization=first["start_time_us"] - begin,
            finalization=end - last["end_time_us"],
        )
        for part, duration in (
            ("initialization", "initialization"),
            ("training_loop", "training_loop_duration"),
            ("finalization", "finalization"),
        ):
            found[f"{part}_%"] = found[duration] / found["job_duration"] * 100
        return found

    def get_step_statistics(self, by: Any = StatsBy.TRAINING_PHASE) -> Any:
        """Return microseconds from the first begin to the last end in a step: mean, extremes and percentiles.

        Args:
            by: What they are of; None is returned for anything but a `StatsBy`.
        """
        if not isinstance(by, StatsBy):
            get_logger().info(f"{by} should be of type StatsBy")
            return None
        column, events = by.value, self.framework_metrics_df
        if by is StatsBy.TRAINING_PHASE:
            column, events = StatsBy.FRAMEWORK_METRICS.value, events[events["framework_metric"].str.contains(STEP)]
        steps = events.groupby(["step", column]).agg({"start_time_us": "min", "end_time_us": "max"})
        found = _described((steps["end_time_us"] - steps["start_time_us"]).groupby(column))
        found.columns = [by.value, *(f"duration_{name}_us" for name in _STATISTICS)]
        return found

    def get_utilization_stats(self, resource: Any = None, by: Any = None, phase: Any = None) -> Any:
        """Return mean, extremes and percentiles of the samples of each resource and machine.

        Args:
            resource: One resource, or several; None for all.
            by: `StatsBy.TRAINING_PHASE` for each phase by itself.
            phase: The phases of that; None for all.
        """
        if by is not None and not isinstance(by, StatsBy):
            get_logger().info(f"{by} should be of type StatsBy")
            return None
        if resource is not None and not isinstance(resource, (list, Resource)):
            get_logger().info(f"{resource} should be of type list or Resource")
            return None
        is_by_phase = by is StatsBy.TRAINING_PHASE
        samples = self._with_phases(phase).dropna(subset=["phase"]) if is_by_phase else self.sys_metrics_df
        groups = ["phase", "nodeID"] if is_by_phase else ["nodeID"]
        columns = ["Resource", *(["Training_phase"] if is_by_phase else []), "nodeID"]
        columns += [f"utilization_{name}" for name in _STATISTICS]
        found = []
        for each in _listed(resource, list(Resource)):
            of_resource = samples[samples["type"].str.contains(each.value, regex=False)]
            if not of_resource.empty:
                described = _described(of_resource.groupby(groups)["value"])
                described.insert(0, "Resource", each.value)
                found.append(described.set_axis(columns, axis="columns"))
        return self._pandas.concat(found, ignore_index=True) if found else self._pandas.DataFrame(columns=columns)

    def get_device_usage_stats(
        self,
        device: Any = None,
        utilization_ranges: Any = None,
    ) -> Any:
        """Return numbers of samples by range of utilization, for each type and machine.

        Args:
            device: One device, or several; None for processors and GPUs.
            utilization_ranges: Pairs of lowest and highest value; the first range that holds a value counts.
        """
        ranges = list(_RANGES) if utilization_ranges is None else utilization_ranges
        if device is not None and not isinstance(device, (list, Resource)):
            get_logger().info(f"{device} should be of type list or Resource")
            return self._pandas.DataFrame()
        if not isinstance(ranges, list) or not ranges or any(len(each) != 2 for each in ranges):
            get_logger().info(f"{ranges} should be a list of tuples, each of a start and an end value")
            return self._pandas.DataFrame()
        names = "|".join(each.value for each in _listed(device, [Resource.CPU, Resource.GPU]))
        samples = self.sys_metrics_df[self.sys_metrics_df["type"].str.contains(names)]
        held = samples["value"].map(lambda value: next((i for i, (a, b) in enumerate(ranges) if a <= value <= b), None))
        samples = samples.assign(range=held).dropna(subset=["range"])
        found = samples.groupby(["type", "nodeID", "range"]).size().unstack(fill_value=0).reset_index()
        found.columns = [each if isinstance(each, str) else tuple(ranges[int(each)]) for each in found.columns]
        return found

    def get_training_phase_intervals(self, phase: Any = None) -> Any:
        """Return begin and end of each stretch of one phase, and of what lies before, between and after them.

        Args:
            phase: The phases; None for all. With one, each of its steps is a stretch.
        """
        known = list(self.framework_metrics_df["process"].unique())
        wanted = [each for each in known if STEP in each] if phase is None else phase
        wanted = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(wanted, list):
            get_logger().info(f"{phase} should be a list of strings")
            return None
        wanted = [each for each in wanted if each in known]
        if not wanted:
            get_logger().info("None of the phases is in the framework metrics.")
            return None
        stretches = self._stretches(wanted)
        rows = [[self.sys_metrics_df["timestamp_us"].min(), stretches[0][0] - 1, f"Before {stretches[0][2]}"]]
        for (start, end, name), following in zip(stretches, [*stretches[1:], None], strict=True):
            rows.append([start, end, name])
            if following is not None and following[0] > end + 1:
                between = " and ".join(sorted([name, following[2]]))
                rows.append([end + 1, following[0] - 1, f"Between {between}"])
        last = max(end for _, end, _ in stretches)
        rows.append([last + 1, self.sys_metrics_df["timestamp_us"].max(), f"After {stretches[-1][2]}"])
        return self._pandas.DataFrame(rows, columns=_INTERVAL)

    def _stretches(self, phases: Sequence[str]) -> list[tuple[float, float, str]]:
        """Return (start, end, phase) of the steps of these phases, by their start.

        With several phases, neighbours of one phase are one.
        """
        events = self.framework_metrics_df
        steps = events[events["framework_metric"].isin(phases)].sort_values("start_time_us", kind="stable")
        found: list[tuple[float, float, str]] = []
        for start, end, name in steps[["start_time_us", "end_time_us", "framework_metric"]].itertuples(index=False):
            if len(phases) > 1 and found and found[-1][2] == name:
                found[-1] = found[-1][0], max(end, found[-1][1]), name
            else:
                found.append((start, end, name))
        return found

    def _with_phases(self, phase: Any) -> Any:
        """Return the samples, each with the phase that it lies in; the last one of several."""
        samples = self.sys_metrics_df.assign(phase=None)
        intervals = self.get_training_phase_intervals(phase)
        for start, end, name in () if intervals is None else intervals[_INTERVAL].itertuples(index=False):
            samples.loc[samples["timestamp_us"].between(start, end), "phase"] = name
        return samples

    def _steps_of_events(self) -> Any:
        """Return the step of each event: its own, or the first of its node that holds it; -1 for none."""
        events = self.framework_metrics_df
        steps = events[events["framework_metric"].str.contains(STEP) & (events["step"] != -1)]
        spans = steps.groupby(["nodeID", "framework_metric", "step"]).agg(
            {"start_time_us": "min", "end_time_us": "max"}
        )
        found = events["step"].copy()
        for (node, _, step), start, end in reversed(list(spans.itertuples())):
            is_inside = (events["start_time_us"] > start) & (events["end_time_us"] < end)
            found[is_inside & (events["step"] == -1) & (events["nodeID"] == node)] = step
        return found


def _described(grouped: Any) -> Any:
    """Return a row a group: its keys, mean, extremes and percentiles."""
    found = grouped.describe(percentiles=[0.5, 0.95, 0.99])
    return found.reindex(columns=["mean", "min", "max", "50%", "95%", "99%"]).reset_index()


def _listed(given: Any, otherwise: list[Resource]) -> list[Resource]:
    if given is None:
        return otherwise
    return [given] if isinstance(given, Resource) else list(given)


__getattr__ = not_offered.attribute_of(__name__)
