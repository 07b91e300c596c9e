"""Requests of `profilerconfig.json`, in the texts that SageMaker, its SDK and people write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run.profiling_request import (
    OPERATORS,
    PYTHON,
    ProfilingRequest,
    Window,
    read_profiling_request,
)


def text_of(**parts: Any) -> str:
    return json.dumps({"ProfilingParameters": parts})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", ProfilingRequest()),
        ('{"ProfilingParameters": {}}', ProfilingRequest()),
        ('{"ProfilingParameters": null}', ProfilingRequest()),
        (text_of(LocalPath="/opt/ml/output/profiler"), ProfilingRequest()),
        (text_of(DetailedProfilingConfig="{}"), ProfilingRequest()),
        (
            text_of(DetailedProfilingConfig={"StartStep": 5, "NumSteps": 3}),
            ProfilingRequest(operators=Window(5, 3)),
        ),
        # As the SDK writes it: nearly JSON.
        (
            text_of(DetailedProfilingConfig='{"StartStep": 5, "NumSteps": 1, }'),
            ProfilingRequest(operators=Window(5, 1)),
        ),
        (text_of(DetailedProfilingConfig="{'StartStep': 5}"), ProfilingRequest(operators=Window(5, 1))),
        (text_of(DetailedProfilingConfig='{"NumSteps": "2"}'), ProfilingRequest(operators=Window(None, 2))),
        ('{"profilingparameters": {"detailedprofilingconfig": {"startstep": 2}}}', ProfilingRequest(Window(2))),
        (
            text_of(DetailedProfilingConfig={"StartTimeInSecSinceEpoch": 1.5e9, "DurationInSeconds": 5}),
            ProfilingRequest(operators=Window(starts_at=1.5e9, seconds=5.0)),
        ),
        (
            text_of(DetailedProfilingConfig={"StartTimeInSecSinceEpoch": 1.5e9, "Duration": 5}),  # the SDK's name
            ProfilingRequest(operators=Window(starts_at=1.5e9, seconds=5.0)),
        ),
        (
            text_of(DetailedProfilingConfig={"DurationInSeconds": 5}),
            ProfilingRequest(operators=Window(starts_at=0.0, seconds=5.0)),
        ),
        (
            text_of(PythonProfilingConfig={"StartStep": 9, "ProfilerName": "Pyinstrument"}),
            ProfilingRequest(python=Window(9), profiler="pyinstrument"),
        ),
        (
            text_of(PythonProfilingConfig={"StartStep": 9, "cProfileTimer": "off_cpu_time"}),
            ProfilingRequest(python=Window(9), timer="off_cpu_time"),
        ),
        (
            '{"DisableProfiler": true, "ProfilingParameters": {"DetailedProfilingConfig": {"StartStep": 2}}}',
            ProfilingRequest(),
        ),
    ],
)
def test_requests_are_read(text: str, expected: ProfilingRequest) -> None:
    request, problems = read_profiling_request(text)
    assert problems == []
    assert request == expected


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "profilerconfig.json", "holds no JSON object"),
        ("[1]", "profilerconfig.json", "it is a list"),
        ('{"ProfilingParameters": 3}', "profilerconfig.json", "it is a int"),
        (text_of(DetailedProfilingConfig="5"), OPERATORS, "is no object"),
        (text_of(DetailedProfilingConfig="__import__('os')"), OPERATORS, "is no object"),
        (text_of(DetailedProfilingConfig={"StartStep": -1}), f"{OPERATORS}.StartStep", "from 0 on"),
        (text_of(DetailedProfilingConfig={"StartStep": True}), f"{OPERATORS}.StartStep", "from 0 on"),
        (text_of(DetailedProfilingConfig={"NumSteps": 0}), f"{OPERATORS}.NumSteps", "from 1 on"),
        (text_of(DetailedProfilingConfig={"NumSteps": "many"}), f"{OPERATORS}.NumSteps", "from 1 on"),
        (text_of(DetailedProfilingConfig={"NumSteps": 5000}), OPERATORS, "too many"),
        (text_of(DetailedProfilingConfig={"StartStep": 1, "DurationInSeconds": 2}), OPERATORS, "both steps and times"),
        (text_of(PythonProfilingConfig={"StartStep": 1, "ProfilerName": "perf"}), f"{PYTHON}.ProfilerName", "cprofile"),
        (text_of(PythonProfilingConfig={"StartStep": 1, "cProfileTimer": "x"}), f"{PYTHON}.cProfileTimer", "cpu_time"),
    ],
)
def test_a_mistake_is_named(text: str, where: str, what: str) -> None:
    request, problems = read_profiling_request(text)
    assert (request.operators, request.python) == (None, None)
    (problem,) = problems
    assert problem.where == where
    assert what in problem.what


def test_a_mistake_in_one_part_leaves_the_other() -> None:
    text = text_of(DetailedProfilingConfig={"NumSteps": 0}, PythonProfilingConfig={"NumSteps": 2})
    request, problems = read_profiling_request(text)
    assert request == ProfilingRequest(python=Window(None, 2))
    assert len(problems) == 1


windows = st.one_of(
    st.builds(Window, st.none() | st.integers(0, 10**9), st.integers(1, 200)),
    st.builds(lambda at, seconds: Window(None, 1, at, seconds), st.floats(0, 1e10), st.floats(0, 60)),
)
requests = st.builds(
    ProfilingRequest,
    st.none() | windows,
    windows,
    st.sampled_from(["cprofile", "pyinstrument"]),
    st.sampled_from(["total_time", "cpu_time", "off_cpu_time", "default"]),
)


@given(requests)
def test_a_request_comes_back(request: ProfilingRequest) -> None:
    assert read_profiling_request(request.to_json()) == (request, [])
    stored = CaptureRequest(profiling=request)
    assert CaptureRequest.from_json(stored.to_json()) == stored


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_no_text_raises(text: str) -> None:
    read_profiling_request(text)
    read_profiling_request(text_of(DetailedProfilingConfig=text, PythonProfilingConfig=text))
