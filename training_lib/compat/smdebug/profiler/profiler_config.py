"""The parts of the profiler's configuration: when each is at work, and with which settings.

Capture reads `profilerconfig.json` by itself (`trackside.contracts.run.profiling_request`). These classes answer
scripts that ask for its content, and hold the words of the original.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from enum import Enum
from typing import Any

from smdebug import not_offered
from smdebug.profiler.profiler_constants import CPROFILE_NAME, PROFILING_NUM_STEPS_DEFAULT, PYINSTRUMENT_NAME
from smdebug.profiler.python_profile_utils import cProfileTimer

_ANY_STEP = "*"  # before the first step, and after the last
_CAPITAL = re.compile(r"\\.|[A-Z]")


class MetricsConfigsField(Enum):
    """A key of a part, in lower case."""

    START_STEP = "startstep"
    NUM_STEPS = "numsteps"
    START_TIME = "starttimeinsecsinceepoch"
    DURATION = "durationinseconds"
    DEFAULT_PROFILING = "defaultprofiling"
    METRICS_REGEX = "metricsregex"
    PROFILER_NAME = "profilername"
    CPROFILE_TIMER = "cprofiletimer"


class RotationPolicy:
    """The size in bytes, and the age in seconds, at which a timeline is closed and the next one begun."""

    def __init__(self, file_max_size: int, file_close_interval: float) -> None:
        self.file_max_size, self.file_close_interval = file_max_size, file_close_interval


class TraceFile:
    """The settings of timelines. After `file_open_fail_threshold` failures in a row none is tried any more."""

    def __init__(self, file_max_size: int, file_close_interval: float, file_open_fail_threshold: int) -> None:
        self.rotation_policy = RotationPolicy(file_max_size, file_close_interval)
        self.file_open_fail_threshold = file_open_fail_threshold


class ProfileRange:
    """A range of steps, or else of time. An empty part, or one with a mistake, is never at work.

    `start_step`, `end_step`, `start_time_in_sec` and `end_time` are filled in by the first question that needs them.
    """

    def __init__(self, name: str, profile_range: Mapping[str, Any]) -> None:
        self.name = name
        self.error_message: str | None = None
        self.disabled = not profile_range
        self.start_step: int | None = None
        self.num_steps: int | None = None
        self.end_step: int | None = None
        self.start_time_in_sec: float | None = None
        self.duration_in_sec: float | None = None
        self.end_time: float | None = None
        field = MetricsConfigsField
        try:
            self.start_step = _whole(profile_range.get(field.START_STEP.value))
            self.num_steps = _whole(profile_range.get(field.NUM_STEPS.value))
            self.start_time_in_sec = _finite(profile_range.get(field.START_TIME.value))
            self.duration_in_sec = _finite(profile_range.get(field.DURATION.value))
        except (TypeError, ValueError, OverflowError) as error:
            self._refuse(f"{error} encountered in {name} config. Disabling {name}.")
        if self.has_step_range() and self.has_time_range():
            self.error_message = f"Found step and time fields in {name} config! Disabling {name}."

    def has_step_range(self) -> bool:
        return not self.start_step is self.num_steps is None

    def has_time_range(self) -> bool:
        return not self.start_time_in_sec is self.duration_in_sec is None

    def is_enabled(self) -> bool:
        return not self.disabled and self.error_message is None

    def reset_profile_range(self) -> None:
        """Forget the range."""
        self.start_step = self.num_steps = None
        self.start_time_in_sec = self.duration_in_sec = None

    def can_start_profiling(self, current_step: int | str, current_time: float | None) -> bool:
        """Return True if this step lies in the range. `current_time` None is now."""
        if not self.is_enabled():
            return False
        if self.has_step_range():
            return current_step == _ANY_STEP or self._holds_step(int(current_step))
        if self.has_time_range():
            return self._holds_moment(current_step, time.time() if current_time is None else current_time)
        return False

    def _holds_step(self, step: int) -> bool:
        if self.start_step is None:
            self.start_step = step
        if self.num_steps is None:
            self.num_steps = PROFILING_NUM_STEPS_DEFAULT
        self.end_step = self.start_step + self.num_steps
        return self.start_step <= step < self.end_step

    def _holds_moment(self, step: int | str, moment: float) -> bool:
        if self.start_time_in_sec is None:
            self.start_time_in_sec = moment
        if self.duration_in_sec is not None:
            self.end_time = self.start_time_in_sec + self.duration_in_sec
            return self.start_time_in_sec <= moment < self.end_time
        if moment < self.start_time_in_sec or step == _ANY_STEP:
            return False
        if self.end_step is None:  # without a duration: the first step from then on
            self.end_step = int(step) + 1
        return int(step) < self.end_step

    def _refuse(self, why: str) -> None:
        self.error_message = why
        self.reset_profile_range()


class DetailedProfilingConfig(ProfileRange):
    """The range in which operators are recorded."""

    def __init__(self, detailed_profiling_config: Mapping[str, Any]) -> None:
        super().__init__("detailed profiling", detailed_profiling_config)


class DataloaderProfilingConfig(ProfileRange):
    """The range of steps in which metrics of data loaders are recorded, and a regex for the start of their names."""

    def __init__(self, dataloader_config: Mapping[str, Any]) -> None:
        super().__init__("dataloader profiling", dataloader_config)
        self.metrics_regex: re.Pattern[str] | None = None
        if self.error_message is not None:
            return
        pattern = str(dataloader_config.get(MetricsConfigsField.METRICS_REGEX.value, ".*"))
        try:
            self.metrics_regex = re.compile(_CAPITAL.sub(_in_lower_case, pattern))
        except re.error as error:
            self._refuse(f"{error} encountered in {self.name} config. Disabling {self.name}.")

    def valid_metrics_name(self, metrics_name: str) -> bool:
        """Return True for the name of a metric to record. Case counts for nothing."""
        return self.metrics_regex is not None and self.metrics_regex.match(metrics_name.lower()) is not None


class PythonProfilingConfig(ProfileRange):
    """The range in which Python functions are recorded, and the profiler."""

    def __init__(self, python_profiling_config: Mapping[str, Any]) -> None:
        super().__init__("python profiling", python_profiling_config)
        self.profiler_name: str | None = None
        self.cprofile_timer: cProfileTimer | None = None
        if self.error_message is not None:
            return
        field = MetricsConfigsField
        name = str(python_profiling_config.get(field.PROFILER_NAME.value, CPROFILE_NAME)).lower()
        if name not in {CPROFILE_NAME, PYINSTRUMENT_NAME}:
            self._refuse(f"Profiler name must be {CPROFILE_NAME} or {PYINSTRUMENT_NAME}!")
            return
        if name == CPROFILE_NAME:
            timer = str(python_profiling_config.get(field.CPROFILE_TIMER.value, cProfileTimer.TOTAL_TIME.value))
            try:
                self.cprofile_timer = cProfileTimer(timer.lower())
            except ValueError as error:
                self._refuse(f"{error} encountered in {self.name} config. Disabling {self.name}.")
                return
        self.profiler_name = name


class SMDataParallelProfilingConfig(ProfileRange):
    """The range in which the profiler of SageMaker's data parallel library is at work."""

    def __init__(self, smdataparallel_profiling_config: Mapping[str, Any]) -> None:
        super().__init__("smdataparallel profiling", smdataparallel_profiling_config)


class ProfilerConfig:
    """The whole configuration."""

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        local_path: str,
        file_max_size: int,
        file_close_interval: float,
        file_open_fail_threshold: int,
        detailed_profiling_config: Mapping[str, Any],
        dataloader_profiling_config: Mapping[str, Any],
        python_profiling_config: Mapping[str, Any],
        smdataparallel_profiling_config: Mapping[str, Any],
    ) -> None:
        self.local_path = local_path
        self.trace_file = TraceFile(file_max_size, file_close_interval, file_open_fail_threshold)
        self.detailed_profiling_config = DetailedProfilingConfig(detailed_profiling_config)
        self.dataloader_profiling_config = DataloaderProfilingConfig(dataloader_profiling_config)
        self.python_profiling_config = PythonProfilingConfig(python_profiling_config)
        self.smdataparallel_profiling_config = SMDataParallelProfilingConfig(smdataparallel_profiling_config)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _finite(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no moment")
    return number


def _in_lower_case(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else match[0].lower()  # \D is not \d


__getattr__ = not_offered.attribute_of(__name__)
