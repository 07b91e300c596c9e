"""Profilers of Python functions, which a script may begin and end by itself."""

from __future__ import annotations

import time
from pathlib import Path

from smdebug import not_offered
from smdebug.core.locations import TraceFileLocation
from smdebug.core.logger import get_logger
from smdebug.core.utils import FRAMEWORK
from smdebug.profiler.profiler_config import ProfilerConfig
from smdebug.profiler.profiler_constants import (
    CONVERT_TO_MICROSECS,
    CPROFILE_NAME,
    PYINSTRUMENT_NAME,
    PYTHON_PROFILING_START_STEP_DEFAULT,
)
from smdebug.profiler.python_profile_utils import (
    PythonProfileModes,
    StepPhase,
    cProfileTimer,
    python_profile_mode_to_str,
)
from trackside.profiling.python_profile import begin_python_profile
from trackside.profiling.windows import Recording
from trackside.records.machine.function_times import FUNCTIONS

_ANY_FRAMEWORK = "python"
_DEFAULT_TIMERS = {  # by step; elsewhere all time
    PYTHON_PROFILING_START_STEP_DEFAULT + 1: cProfileTimer.CPU_TIME,
    PYTHON_PROFILING_START_STEP_DEFAULT + 2: cProfileTimer.OFF_CPU_TIME,
}


class PythonProfiler:
    """One profile at a time of this thread.

    Args:
        base_folder: The folder of the run's profiles.
        framework: The framework, as in the path of the profile.
    """

    _name = CPROFILE_NAME

    def __init__(self, base_folder: str, framework: FRAMEWORK | None) -> None:
        self._base_folder, self._framework = base_folder, framework
        self._recording: Recording | None = None
        self._reset()

    @property
    def is_profiling(self) -> bool:
        """True between `start_profiling` and `stop_profiling`."""
        return self._recording is not None

    def _reset(self) -> None:
        self._start_phase: StepPhase | None = None
        self._start_mode: PythonProfileModes | None = None
        self._start_step: int | str = "*"
        self._start_time_since_epoch_in_micros = 0.0

    def start_profiling(
        self,
        start_phase: StepPhase,
        start_mode: PythonProfileModes = PythonProfileModes.PRE_STEP_ZERO,
        start_step: int | str = "*",
    ) -> None:
        """Begin a profile. Without effect while another profiler is at work in this thread."""
        self._start_phase, self._start_mode, self._start_step = start_phase, start_mode, start_step
        self._start_time_since_epoch_in_micros = _now()
        if self._recording is not None:
            self._recording.stop()
        self._recording = begin_python_profile(self._name, self._timer())
        if self._recording is None:
            get_logger().warning("Another profiler is at work. Python functions are not recorded beside it.")

    def stop_profiling(
        self,
        end_phase: StepPhase,
        end_mode: PythonProfileModes = PythonProfileModes.POST_HOOK_CLOSE,
        end_step: int | str = "*",
    ) -> None:
        """End the profile and store it. Without effect while none is open."""
        recording, self._recording = self._recording, None
        write = recording.stop() if recording is not None else None
        if write is not None and self._start_phase is not None and self._start_mode is not None:
            folder = TraceFileLocation.get_python_profiling_stats_dir(
                self._base_folder,
                self._name,
                self._framework.value if self._framework is not None else _ANY_FRAMEWORK,
                python_profile_mode_to_str(self._start_mode),
                self._start_step,
                self._start_phase.value,
                self._start_time_since_epoch_in_micros,
                python_profile_mode_to_str(end_mode),
                end_step,
                end_phase.value,
                _now(),
            )
            write(Path(folder))
            Path(folder, FUNCTIONS).unlink(missing_ok=True)  # ours; the original's folder holds no other file
        self._reset()

    @staticmethod
    def get_python_profiler(profiler_config: ProfilerConfig, framework: FRAMEWORK | None) -> PythonProfiler:
        """Return the profiler that a configuration asks for."""
        wanted, folder = profiler_config.python_profiling_config, profiler_config.local_path
        if wanted.profiler_name == PYINSTRUMENT_NAME:
            return PyinstrumentPythonProfiler(folder, framework)
        if wanted.cprofile_timer is cProfileTimer.DEFAULT:
            return cProfileDefaultPythonProfiler(folder, framework)
        return cProfilePythonProfiler(folder, framework, wanted.cprofile_timer or cProfileTimer.TOTAL_TIME)

    def _timer(self) -> str:
        """Return the time to count, of `profiling_request.TIMERS`."""
        return cProfileTimer.TOTAL_TIME.value


class cProfilePythonProfiler(PythonProfiler):  # noqa: N801 - the old name
    """Python's own profiler, which counts one of three times."""

    def __init__(self, base_folder: str, framework: FRAMEWORK | None, cprofile_timer: cProfileTimer | str) -> None:
        super().__init__(base_folder, framework)
        self.cprofile_timer = cProfileTimer(cprofile_timer)

    def _timer(self) -> str:
        return self.cprofile_timer.value


class cProfileDefaultPythonProfiler(cProfilePythonProfiler):  # noqa: N801 - the old name
    """Python's own profiler, which counts another time in each of three steps, and all time elsewhere."""

    def __init__(self, base_folder: str, framework: FRAMEWORK | None) -> None:
        super().__init__(base_folder, framework, cProfileTimer.DEFAULT)

    def _timer(self) -> str:
        step = self._start_step
        timer = _DEFAULT_TIMERS.get(step) if isinstance(step, int) else None
        return (timer or cProfileTimer.TOTAL_TIME).value


class PyinstrumentPythonProfiler(PythonProfiler):
    """pyinstrument, which samples."""

    _name = PYINSTRUMENT_NAME


def _now() -> float:
    return time.time() * CONVERT_TO_MICROSECS


__getattr__ = not_offered.attribute_of(__name__)
