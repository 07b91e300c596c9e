"""The SDK's classes for profiling. Everything is read and checked; only the machine is sampled as they ask."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem

LOCAL_PATH = "/opt/ml/output/profiler"
_INTERVALS = (100, 200, 500, 1000, 5000, 60_000)


class PythonProfiler(Enum):
    """The profiler of Python code."""

    CPROFILE = "cprofile"
    PYINSTRUMENT = "pyinstrument"


class cProfileTimer(Enum):  # noqa: N801 - the SDK's name
    """The time that cProfile counts."""

    TOTAL_TIME = "total_time"
    CPU_TIME = "cpu_time"
    OFF_CPU_TIME = "off_cpu_time"
    DEFAULT = "default"


class _MetricsConfig:
    """A range of steps, or else of time, in which one thing is profiled."""

    NAME = ""
    DEFAULT_START, DEFAULT_STEPS = 5, 1

    def __init__(
        self,
        start_step: int | None = None,
        num_steps: int | None = None,
        start_unix_time: int | None = None,
        duration: float | None = None,
        profile_default_steps: bool = False,
    ) -> None:
        self.name = self.NAME
        self._problems = _range_problems(self.NAME, start_step, num_steps, start_unix_time, duration)
        if profile_default_steps or (start_step is num_steps is start_unix_time is duration is None):
            start_step, num_steps = self.DEFAULT_START, self.DEFAULT_STEPS
            start_unix_time = duration = None
        self.start_step, self.num_steps = start_step, num_steps
        self.start_unix_time, self.duration = start_unix_time, duration
        self._refuse()

    def _refuse(self) -> None:
        if self._problems:
            raise ConfigurationError(self._problems, subject=self.NAME)

    def values(self) -> dict[str, Any]:
        """Return the values of the request, in the order of the original."""
        if self.start_unix_time is not None or self.duration is not None:
            times = {"StartTimeInSecSinceEpoch": self.start_unix_time, "Duration": self.duration}
            return {name: value for name, value in times.items() if value is not None}
        return {"StartStep": self.start_step or 0, "NumSteps": self.num_steps or 1}

    def to_json_string(self) -> str:
        """Return the values as valid JSON. The original's text only resembled JSON."""
        return json.dumps(self.values())


class DetailedProfilingConfig(_MetricsConfig):
    """The range in which every operator is profiled."""

    NAME = "DetailedProfilingConfig"


class DataloaderProfilingConfig(_MetricsConfig):
    """The range in which data loaders are profiled, and a regex for their names."""

    NAME = "DataloaderProfilingConfig"
    DEFAULT_START = 7

    def __init__(  # noqa: PLR0917 - the SDK's signature
        self,
        start_step: int | None = None,
        num_steps: int | None = None,
        start_unix_time: int | None = None,
        duration: float | None = None,
        profile_default_steps: bool = False,
        metrics_regex: str = ".*",
    ) -> None:
        self.metrics_regex = metrics_regex
        super().__init__(start_step, num_steps, start_unix_time, duration, profile_default_steps)
        try:
            re.compile(metrics_regex)
        except (re.error, TypeError) as error:
            self._problems.append(Problem("metrics_regex", f"{metrics_regex!r} is no regular expression: {error}."))
        self._refuse()

    def values(self) -> dict[str, Any]:
        """Return the values of the request, the regex included."""
        return {**super().values(), "MetricsRegex": self.metrics_regex}


class PythonProfilingConfig(_MetricsConfig):
    """The range in which Python code is profiled."""

    NAME = "PythonProfilingConfig"
    DEFAULT_START, DEFAULT_STEPS = 9, 3

    def __init__(  # noqa: PLR0917 - the SDK's signature
        self,
        start_step: int | None = None,
        num_steps: int | None = None,
        start_unix_time: int | None = None,
        duration: float | None = None,
        profile_default_steps: bool = False,
        python_profiler: PythonProfiler = PythonProfiler.CPROFILE,
        cprofile_timer: cProfileTimer = cProfileTimer.TOTAL_TIME,
    ) -> None:
        super().__init__(start_step, num_steps, start_unix_time, duration, profile_default_steps)
        self.python_profiler = python_profiler
        self.cprofile_timer = cProfileTimer.DEFAULT if profile_default_steps else cprofile_timer
        if not isinstance(python_profiler, PythonProfiler):
            self._problems.append(Problem("python_profiler", f"must be a PythonProfiler, but is {python_profiler!r}."))  # type: ignore[unreachable]  # untyped notebooks
        if not isinstance(cprofile_timer, cProfileTimer):
            self._problems.append(Problem("cprofile_timer", f"must be a cProfileTimer, but is {cprofile_timer!r}."))  # type: ignore[unreachable]  # untyped notebooks
        self._refuse()

    def values(self) -> dict[str, Any]:
        """Return the values of the request, with the profiler and cProfile's timer."""
        values = {**super().values(), "ProfilerName": self.python_profiler.value}
        if self.python_profiler is PythonProfiler.CPROFILE:
            values["cProfileTimer"] = self.cprofile_timer.value
        return values


class HorovodProfilingConfig(_MetricsConfig):
    """The range in which Horovod's operations are profiled."""

    NAME = "HorovodProfilingConfig"
    DEFAULT_START = 13


class SMDataParallelProfilingConfig(_MetricsConfig):
    """The range in which the operations of SageMaker's data parallelism are profiled."""

    NAME = "SMDataParallelProfilingConfig"
    DEFAULT_START = 15


class FrameworkProfile:
    """The parts of the framework to profile: the given ones, or all of them over one range."""

    def __init__(  # noqa: PLR0917 - the SDK's signature
        self,
        local_path: str = LOCAL_PATH,
        file_max_size: int = 10_485_760,
        file_close_interval: float = 60,
        file_open_fail_threshold: int = 50,
        detailed_profiling_config: DetailedProfilingConfig | None = None,
        dataloader_profiling_config: DataloaderProfilingConfig | None = None,
        python_profiling_config: PythonProfilingConfig | None = None,
        horovod_profiling_config: HorovodProfilingConfig | None = None,
        smdataparallel_profiling_config: SMDataParallelProfilingConfig | None = None,
        start_step: int | None = None,
        num_steps: int | None = None,
        start_unix_time: int | None = None,
        duration: float | None = None,
    ) -> None:
        problems = _range_problems("FrameworkProfile", start_step, num_steps, start_unix_time, duration)
        if not isinstance(local_path, str):
            problems.append(Problem("local_path", f"must be a text, but is {local_path!r}."))  # type: ignore[unreachable]  # untyped notebooks
        problems += _number_problems("file_max_size", file_max_size, least=1)
        problems += _number_problems("file_close_interval", file_close_interval, above=0, whole=False)
        problems += _number_problems("file_open_fail_threshold", file_open_fail_threshold, least=1)
        if problems:
            raise ConfigurationError(problems, subject="The FrameworkProfile")
        given = (
            detailed_profiling_config,
            dataloader_profiling_config,
            python_profiling_config,
            horovod_profiling_config,
            smdataparallel_profiling_config,
        )
        chosen = [each for each in given if each is not None]
        if not chosen:
            one_range = (start_step, num_steps, start_unix_time, duration)
            is_default = all(each is None for each in one_range)
            kinds = (
                DetailedProfilingConfig,
                DataloaderProfilingConfig,
                PythonProfilingConfig,
                HorovodProfilingConfig,
                SMDataParallelProfilingConfig,
            )
            chosen = [kind(*one_range, profile_default_steps=is_default) for kind in kinds]
        self.profiling_parameters = {
            "LocalPath": local_path,
            "RotateMaxFileSizeInBytes": str(file_max_size),
            "RotateFileCloseIntervalInSeconds": str(file_close_interval),
            "FileOpenFailThreshold": str(file_open_fail_threshold),
            **{each.name: each.to_json_string() for each in chosen},
        }


class Profiler:
    """The settings of the later SageMaker Profiler."""

    def __init__(self, cpu_profiling_duration: str = "3600", file_rotation_interval: str = "600") -> None:
        self.profiling_parameters = {
            "CPUProfilingDuration": str(cpu_profiling_duration),
            "SMPFileRotationSecs": str(file_rotation_interval),
        }


class ProfilerConfig:
    """The interval of measurements of the machine, and the parts of the framework to profile."""

    def __init__(
        self,
        s3_output_path: str | None = None,
        system_monitor_interval_millis: int | None = None,
        framework_profile_params: FrameworkProfile | None = None,
        profile_params: Profiler | None = None,
        disable_profiler: bool = False,
    ) -> None:
        problems = []
        if system_monitor_interval_millis not in (None, *_INTERVALS):
            what = f"must be one of {', '.join(map(str, _INTERVALS))}, but is {system_monitor_interval_millis!r}."
            problems.append(Problem("system_monitor_interval_millis", what))
        for name, value in (("framework_profile_params", framework_profile_params), ("profile_params", profile_params)):
            if value is not None and not hasattr(value, "profiling_parameters"):
                kind = "FrameworkProfile" if name.startswith("framework") else "Profiler"
                problems.append(Problem(name, f"must be a {kind}, but is {value!r}."))
        if framework_profile_params and profile_params:
            problems.append(Problem("profile_params", "cannot stand beside framework_profile_params.", "Give one."))
        if problems:
            raise ConfigurationError(problems, subject="The ProfilerConfig")
        self.s3_output_path = s3_output_path
        self.system_monitor_interval_millis = system_monitor_interval_millis
        self.framework_profile_params = framework_profile_params
        self.profile_params = profile_params
        self.disable_profiler = disable_profiler

    def _to_request_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {} if self.s3_output_path is None else {"S3OutputPath": self.s3_output_path}
        document["DisableProfiler"] = self.disable_profiler
        if self.system_monitor_interval_millis is not None:
            document["ProfilingIntervalInMilliseconds"] = self.system_monitor_interval_millis
        profile = self.framework_profile_params or self.profile_params
        if profile is not None:
            document["ProfilingParameters"] = profile.profiling_parameters
        return document


def _range_problems(
    subject: str, start_step: Any, num_steps: Any, start_unix_time: Any, duration: Any
) -> list[Problem]:
    problems = [
        *_number_problems("start_step", start_step, least=0),
        *_number_problems("num_steps", num_steps, least=1),
        *_number_problems("start_unix_time", start_unix_time, least=0),
        *_number_problems("duration", duration, above=0, whole=False),
    ]
    has_steps = start_step is not None or num_steps is not None
    if has_steps and (start_unix_time is not None or duration is not None):
        problems.append(Problem(subject, "has both steps and times.", "Give start_step and num_steps, or the times."))
    return problems


def _number_problems(
    name: str, value: Any, *, least: int | None = None, above: float | None = None, whole: bool = True
) -> list[Problem]:
    if value is None:
        return []
    kinds = int if whole else (int, float)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if is_number and (least is None or value >= least) and (above is None or value > above):
        return []
    kind = "whole number" if whole else "number"
    bound = f"from {least} on" if least is not None else f"above {above:g}"
    return [Problem(name, f"must be a {kind} {bound}, but is {value!r}.")]
