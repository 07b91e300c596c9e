"""Profiles of Python code: where one is, what it is of, and its numbers."""

from __future__ import annotations

import pstats
from collections.abc import Mapping
from enum import Enum
from typing import Any

from smdebug import not_offered
from smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase, str_to_python_profile_mode
from trackside.speed.performance.profile import pandas_module


class Metrics(Enum):
    """A number of cProfile's."""

    TOTAL_TIME = "tottime"
    CUMULATIVE_TIME = "cumtime"
    PRIMITIVE_CALLS = "pcalls"
    TOTAL_CALLS = "ncalls"


class StepPythonProfileStats:
    """The place of one profile, and what it is of, as the name of its folder has it.

    Raises:
        ValueError: The folder's name is not of that form.
    """

    def __init__(self, framework: str, profiler_name: str, node_id: str, stats_dir: str, stats_path: str) -> None:
        self.profiler_name, self.framework, self.node_id = profiler_name, framework, node_id
        start, end = stats_dir.split("_")
        self.start_mode, step, self.start_phase, self.start_time_since_epoch_in_micros = _moment(start)
        self.start_step = -1.0 if step == "*" else int(step)
        self.end_mode, step, self.end_phase, self.end_time_since_epoch_in_micros = _moment(end)
        self.end_step = float("inf") if step == "*" else int(step)
        self.stats_path = stats_path

    def has_start_and_end_mode(self, start_mode: PythonProfileModes, end_mode: PythonProfileModes) -> bool:
        return self.start_mode == start_mode and self.end_mode == end_mode

    def in_time_interval(self, start_time_since_epoch_in_micros: float, end_time_since_epoch_in_micros: float) -> bool:
        """Return True if the profile overlaps a range."""
        return (
            self.start_time_since_epoch_in_micros <= end_time_since_epoch_in_micros
            and self.end_time_since_epoch_in_micros >= start_time_since_epoch_in_micros
        )

    def in_step_interval(
        self, start_step: float, end_step: float, start_phase: StepPhase, end_phase: StepPhase
    ) -> bool:
        """Return True if the profile lies in a range of steps.

        At the first step the profile begins at the phase `start_phase` or later; at the last step it ends at
        `end_phase` or before.
        """
        if start_step > self.start_step or end_step < self.end_step:
            return False
        begins_late = start_phase in {StepPhase.STEP_END, StepPhase.FORWARD_PASS_END}
        if start_step == self.start_step and begins_late and self.start_phase != start_phase:
            return False
        ends_early = end_phase == StepPhase.STEP_START
        return not (end_step == self.end_step and ends_early and self.end_phase != end_phase)

    def has_pre_step_zero_profile_stats(self) -> bool:
        return self.start_phase == StepPhase.START

    def has_post_hook_close_profile_stats(self) -> bool:
        return self.end_phase == StepPhase.END

    def has_node_id(self, node_id: str) -> bool:
        return self.node_id == node_id

    def __repr__(self) -> str:
        return repr(vars(self))


class cProfileFunctionStats:  # noqa: N801 - the old name
    """The numbers of one function. Times are in seconds."""

    def __init__(self, key: tuple[str, int, str], value: tuple[int, int, float, float, Mapping[Any, Any]]) -> None:
        self.function_name = _shown(key)
        self.prim_calls, self.total_calls, self.total_time, self.cumulative_time, callers = value
        self.callers = [_shown(caller) for caller in callers]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers by the names that the original prints."""
        return {
            "function name": self.function_name,
            "# of primitive calls": self.prim_calls,
            "# of total calls": self.total_calls,
            "total time": self.total_time,
            "cumulative time": self.cumulative_time,
        }

    def __repr__(self) -> str:
        return repr(self.to_dict())


class cProfileStats:  # noqa: N801 - the old name
    """The numbers of cProfile over several profiles."""

    def __init__(self, ps: pstats.Stats) -> None:
        self.ps = ps
        functions = vars(ps)["stats"]
        self.function_stats_list = [cProfileFunctionStats(key, value) for key, value in functions.items()]

    def print_top_n_functions(self, by: Metrics, n: int = 10) -> None:
        """Print the first `n` functions by a number.

        Raises:
            TypeError: `by` is no `Metrics`, or `n` no int.
        """
        if not isinstance(by, Metrics) or not isinstance(n, int):
            raise TypeError("by must be a Metrics, and n an int.")
        self.ps.sort_stats(by.value).print_stats(n)

    def get_function_stats(self) -> Any:
        """Return a frame with a row a function.

        Raises:
            ConfigurationError: pandas is not installed.
        """
        pandas = pandas_module("get_function_stats")
        return pandas.DataFrame([function.to_dict() for function in self.function_stats_list])


class PyinstrumentStepStats:
    """The profile of pyinstrument of one step: the path of its page, and its content."""

    def __init__(self, html_file_path: str, json_stats: dict[str, Any]) -> None:
        self.html_file_path, self.json_stats = html_file_path, json_stats


def _moment(text: str) -> tuple[PythonProfileModes, str, StepPhase, float]:
    mode, step, phase, microseconds = text.split("-")
    return str_to_python_profile_mode(mode), step, StepPhase(phase), float(microseconds)


def _shown(function: tuple[str, int, str]) -> str:
    """Return a function as `pstats` prints it."""
    file, line, name = function
    if file == "~" and line == 0:
        return f"{{{name[1:-1]}}}" if name.startswith("<") and name.endswith(">") else name
    return f"{file}:{line}({name})"


__getattr__ = not_offered.attribute_of(__name__)
