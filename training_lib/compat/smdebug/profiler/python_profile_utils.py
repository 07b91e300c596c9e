"""Words of the profiles of Python code."""

from __future__ import annotations

import os
from enum import Enum, IntEnum

from smdebug import not_offered
from smdebug.core.modes import ModeKeys
from smdebug.profiler.profiler_constants import CPROFILE_NAME, PYINSTRUMENT_NAME


class PythonProfileModes(IntEnum):
    """The mode in which a profile began or ended."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
    PRE_STEP_ZERO = 5
    POST_HOOK_CLOSE = 6


class StepPhase(Enum):
    """The moment of a step at which a profile began or ended."""

    START = "start"
    STEP_START = "stepstart"
    FORWARD_PASS_END = "forwardpassend"  # noqa: S105 - no password
    STEP_END = "stepend"
    END = "end"


class PythonProfilerName(Enum):
    """A profiler."""

    CPROFILE = CPROFILE_NAME
    PYINSTRUMENT = PYINSTRUMENT_NAME


class cProfileTimer(Enum):  # noqa: N801 - the old name
    """The time that cProfile measures."""

    TOTAL_TIME = "total_time"
    CPU_TIME = "cpu_time"
    OFF_CPU_TIME = "off_cpu_time"
    DEFAULT = "default"


def str_to_python_profile_mode(mode_str: str) -> PythonProfileModes:
    """Return the mode of a word in the name of a profile.

    Raises:
        ValueError: There is no such word.
    """
    for mode in PythonProfileModes:
        if python_profile_mode_to_str(mode) == mode_str:
            return mode
    raise ValueError(f"Invalid mode {mode_str!r}")


def python_profile_mode_to_str(mode: PythonProfileModes) -> str:
    return PythonProfileModes(mode).name.lower().replace("_", "")


def mode_keys_to_python_profile_mode(mode: ModeKeys) -> PythonProfileModes:
    return PythonProfileModes(mode.value)


def total_time() -> float:
    return os.times().elapsed


def cpu_time() -> float:
    times = os.times()
    return times.system + times.user


def off_cpu_time() -> float:
    times = os.times()
    return times.elapsed - (times.system + times.user)


__getattr__ = not_offered.attribute_of(__name__)
