"""A request to profile a few steps in detail, and its form in `profilerconfig.json`.

    {"ProfilingParameters": {
        "DetailedProfilingConfig": "{\\"StartStep\\": 100, \\"NumSteps\\": 3}",
        "PythonProfilingConfig": "{\\"StartStep\\": 200, \\"NumSteps\\": 1, \\"ProfilerName\\": \\"cprofile\\"}"}}

That is the file of SageMaker Debugger, which SageMaker writes into a job and replaces while the job goes on. Names of
keys count in any case. A part is an object, or a text that holds one as JSON or as Python writes it; it is never run.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trackside.contracts.errors import Problem
from trackside.contracts.stored_fields import FINITE, at_least, closed_record, if_given, nullable, stored, word

MOST_STEPS = 200  # of one window
MOST_SECONDS = 60.0
OPERATORS, PYTHON = "DetailedProfilingConfig", "PythonProfilingConfig"
CPROFILE, PYINSTRUMENT, OUTSIDE = PROFILERS = ("cprofile", "pyinstrument", "py-spy")  # the last in its own process
TIMERS = ("total_time", "cpu_time", "off_cpu_time", "default")  # the time that cProfile counts


@dataclass(frozen=True)
class Window:
    """A range of steps, or else of time.

    Attributes:
        first_step: The first step; None: the one that comes next.
        steps: Number of steps.
        starts_at: Seconds since the epoch; None for a range of steps.
        seconds: Seconds from `starts_at` on; None: one step.
    """

    first_step: int | None = field(default=None, metadata=stored(nullable(at_least(0)), optional=True))
    steps: int = field(default=1, metadata=stored(at_least(1), optional=True))
    starts_at: float | None = field(default=None, metadata=stored(if_given(FINITE), optional=True))
    seconds: float | None = field(default=None, metadata=stored(if_given(FINITE), optional=True))

    def shifted(self, steps: int) -> Window:
        """Return the window with its steps counted from another one on.

        Args:
            steps: The number to add.
        """
        return self if self.first_step is None else replace(self, first_step=self.first_step + steps)


@dataclass(frozen=True)
class ProfilingRequest:
    """The windows of one request.

    Attributes:
        operators: The steps whose operators are recorded; None for none.
        python: The steps whose Python functions are.
        profiler: The profiler of Python code, of `PROFILERS`.
        timer: The time that it counts if it is cProfile, of `TIMERS`.
    """

    operators: Window | None = field(default=None, metadata=stored(if_given(closed_record(Window)), optional=True))
    python: Window | None = field(default=None, metadata=stored(if_given(closed_record(Window)), optional=True))
    profiler: str = field(default="cprofile", metadata=stored(word(*PROFILERS), optional=True))
    timer: str = field(default="total_time", metadata=stored(word(*TIMERS), optional=True))

    def to_json(self, *, requested_at: float = 0.0) -> str:
        """Return the request as `profilerconfig.json` has it.

        Args:
            requested_at: A moment that tells it from an equal request before; 0 for none.
        """
        parts = {"RequestedAt": repr(requested_at)} if requested_at else {}
        if self.operators is not None:
            parts[OPERATORS] = json.dumps(_document(self.operators))
        if self.python is not None:
            names = {"ProfilerName": self.profiler, "cProfileTimer": self.timer}
            parts[PYTHON] = json.dumps({**_document(self.python), **names})
        return json.dumps({"ProfilingParameters": parts})


def read_profiling_request(text: str) -> tuple[ProfilingRequest, list[Problem]]:
    """Return the request of a `profilerconfig.json`, and what is wrong with it. A part with a problem is left out.

    Args:
        text: The content of the file.
    """
    try:
        document = _folded(json.loads(text))
        parameters = _folded(document.get("profilingparameters") or {})
    except (ValueError, TypeError, RecursionError) as error:
        return ProfilingRequest(), [Problem("profilerconfig.json", f"holds no JSON object: {error}.")]
    if _is_true(document.get("disableprofiler")):
        return ProfilingRequest(), []
    problems: list[Problem] = []
    operators = _part(parameters, OPERATORS, problems)
    python = _part(parameters, PYTHON, problems)
    request = ProfilingRequest(operators=_window(operators, OPERATORS, problems) if operators else None)
    if not python:
        return request, problems
    before = len(problems)
    window = _window(python, PYTHON, problems)
    profiler = _one_of(PROFILERS, python, "ProfilerName", problems)
    timer = _one_of(TIMERS, python, "cProfileTimer", problems)
    if len(problems) > before:
        return request, problems
    return replace(request, python=window, profiler=profiler, timer=timer), problems


def _part(parameters: Mapping[str, Any], name: str, problems: list[Problem]) -> dict[str, Any]:
    value = parameters.get(name.lower())
    try:
        return object_of(value)
    except ValueError:
        problems.append(Problem(name, f"is no object, but {value!r:.80}.", 'Use {"StartStep": 100, "NumSteps": 3}.'))
        return {}


def object_of(part: Any) -> dict[str, Any]:
    """Return a part of the file with its keys in lower case: an object, or a text that holds one. It is never run.

    Args:
        part: The part; None for none.

    Raises:
        ValueError: It holds no object.
    """
    try:
        return _folded(_literal(part) if isinstance(part, str) else part or {})
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{part!r:.80} holds no object: {error}") from error


def _literal(text: str) -> Any:
    """Return the object in a text of JSON, or of Python: the original's SDK left a comma behind the last value."""
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text.strip())


def _folded(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"it is a {type(value).__name__}")
    return {str(key).lower(): inner for key, inner in value.items()}


def _window(part: Mapping[str, Any], name: str, problems: list[Problem]) -> Window | None:
    before = len(problems)
    first = _number(part, ("startstep",), f"{name}.StartStep", problems, least=0)
    steps = _number(part, ("numsteps",), f"{name}.NumSteps", problems, least=1)
    starts_at = _number(part, ("starttimeinsecsinceepoch",), f"{name}.StartTimeInSecSinceEpoch", problems, least=0)
    seconds = _number(part, ("durationinseconds", "duration"), f"{name}.DurationInSeconds", problems, least=0)
    is_of_steps, is_of_time = not first is steps is None, not starts_at is seconds is None
    if is_of_steps and is_of_time:
        problems.append(Problem(name, "has both steps and times.", "Give StartStep and NumSteps, or the times."))
    for limit, value, unit in ((MOST_STEPS, steps, "steps"), (MOST_SECONDS, seconds, "seconds")):
        if value is not None and value > limit:
            what = f"{value:g} {unit} are too many: a window keeps all of its events in memory."
            problems.append(Problem(name, what, f"Use {limit:g} at most."))
    if len(problems) > before or not (is_of_steps or is_of_time):
        return None
    if is_of_time:
        return Window(starts_at=0.0 if starts_at is None else starts_at, seconds=seconds)
    return Window(None if first is None else int(first), 1 if steps is None else int(steps))


def _number(
    part: Mapping[str, Any], keys: tuple[str, ...], where: str, problems: list[Problem], *, least: float
) -> float | None:
    value = next((part[key] for key in keys if part.get(key) is not None), None)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= least) or isinstance(value, bool):
        problems.append(Problem(where, f"must be a number from {least:g} on, but is {value!r}."))
        return None
    return number


def _one_of(known: tuple[str, ...], part: Mapping[str, Any], key: str, problems: list[Problem]) -> str:
    value = part.get(key.lower())
    if value is None:
        return known[0]
    if (folded := str(value).lower()) not in known:
        problems.append(Problem(f"{PYTHON}.{key}", f"must be one of {', '.join(known)}, but is {value!r}."))
    return folded


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


def _document(window: Window) -> dict[str, Any]:
    if window.starts_at is not None:
        times = {"StartTimeInSecSinceEpoch": window.starts_at, "DurationInSeconds": window.seconds}
        return {name: value for name, value in times.items() if value is not None}
    first = {} if window.first_step is None else {"StartStep": window.first_step}
    return {**first, "NumSteps": window.steps}
