"""Profiles by py-spy: its stacks as functions, a whole profile of this process, and what is said without one."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from trackside.profiling.outside_profile import RATE, STACKS, begin_outside_profile, functions_of
from trackside.records.machine.function_times import FUNCTIONS, decode_functions

HAS_PY_SPY = bool(shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent)))


@pytest.mark.parametrize(
    ("stacks", "expected"),
    [
        pytest.param("<module> (a.py:3);f (a.py:7) 12", {"<module>": (3, 0, 12), "f": (7, 12, 12)}, id="a stack"),
        pytest.param(
            "f (a.py:9);g (b.py:2) 4\nf (a.py:7) 6", {"f": (7, 6, 10), "g": (2, 4, 4)}, id="two stacks, a first line"
        ),
        pytest.param("f (a.py:7);f (a.py:7);f (a.py:7) 5", {"f": (7, 5, 5)}, id="one that calls itself"),
        pytest.param(
            "read (<frozen os>:1);a b (my file (2).py:4) 3", {"read": (1, 0, 3), "a b": (4, 3, 3)}, id="names"
        ),
        pytest.param("", {}, id="nothing"),
        pytest.param("f (a.py:7)\nno frame 3\nf (a.py:7) many", {}, id="no stacks"),
    ],
)
def test_functions_of_stacks(stacks: str, expected: dict[str, tuple[int, int, int]]) -> None:
    found = {
        one.name: (one.line, round(one.self_seconds * RATE), round(one.total_seconds * RATE))
        for one in functions_of(stacks)
    }
    assert found == expected


def test_says_what_to_do_without_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_named: None)
    with pytest.raises(ImportError, match="pip install py-spy, or use the profiler cprofile"):
        begin_outside_profile()


def test_says_why_nothing_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\necho 'Error: Permission Denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    told: list[str] = []
    recording = begin_outside_profile(told.append)
    recording._process.wait()  # type: ignore[attr-defined] # else the signal ends it before it has said anything
    write = recording.stop()
    assert write is not None
    write(tmp_path)
    assert told == ["py-spy took no sample: Error: Permission Denied"]
    assert not (tmp_path / FUNCTIONS).exists()


def slow_function(until: float) -> float:
    total = 0.0
    while time.monotonic() < until:
        total += sum(range(1000))
    return total


@pytest.mark.skipif(not HAS_PY_SPY, reason="py-spy is not installed")
def test_profiles_this_process(tmp_path: Path) -> None:
    told: list[str] = []
    recording = begin_outside_profile(told.append)
    slow_function(time.monotonic() + 3)
    write = recording.stop()
    assert write is not None
    write(tmp_path)
    assert told == []
    functions = {one.name: one for one in decode_functions((tmp_path / FUNCTIONS).read_bytes(), key="k")}
    assert functions["slow_function"].total_seconds > 0.5
    assert Path(functions["slow_function"].file).name == Path(__file__).name
    assert "slow_function" in (tmp_path / STACKS).read_text("utf-8")
