"""Profiles of Python functions, read by Python's own `pstats`; and the script's own profiler beside ours."""

from __future__ import annotations

import cProfile
import importlib
import pstats
import time
from pathlib import Path

import pytest

from trackside.contracts.errors import RecordError
from trackside.contracts.run.profiling_request import TIMERS
from trackside.profiling.python_profile import STATS, STATS_HTML, STATS_JSON, begin_python_profile
from trackside.records.machine.function_times import FUNCTIONS, FunctionTime, decode_functions, encode_functions


def busy() -> int:
    return sum(number * number for number in range(20_000))


def sleepy() -> None:
    time.sleep(0.02)


def profiled(folder: Path, timer: str) -> dict[str, FunctionTime]:
    recording = begin_python_profile("cprofile", timer)
    assert recording is not None
    for _ in range(3):
        busy()
        sleepy()
    write = recording.stop()
    assert write is not None
    write(folder)
    return {one.name: one for one in decode_functions((folder / FUNCTIONS).read_bytes(), key=FUNCTIONS)}


@pytest.mark.parametrize("timer", TIMERS)
def test_pstats_reads_the_same(tmp_path: Path, timer: str) -> None:
    found = profiled(tmp_path, timer)
    stats = pstats.Stats(str(tmp_path / STATS)).get_stats_profile().func_profiles
    for name in ("busy", "sleepy"):
        assert found[name].calls == 3
        assert found[name].total_seconds == pytest.approx(stats[name].cumtime, abs=1e-3)  # pstats rounds
        assert found[name].file == __file__
    asleep, at_work = found["sleepy"].total_seconds, found["busy"].total_seconds
    if timer == "cpu_time":
        assert asleep < 0.06
        assert asleep < at_work
    elif timer == "off_cpu_time":
        assert asleep >= 0.05
    else:
        assert asleep >= 0.06


def test_none_begins_beside_the_scripts_own() -> None:
    own = cProfile.Profile()
    own.enable()
    try:
        assert begin_python_profile("cprofile", "total_time") is None
    finally:
        own.disable()


def test_it_makes_way_for_the_scripts_own() -> None:
    before = cProfile.Profile.enable
    recording = begin_python_profile("cprofile", "total_time")
    assert recording is not None
    with cProfile.Profile() as own:
        busy()
    assert recording.stop() is None
    assert any(row.code.co_name == "busy" for row in own.getstats() if not isinstance(row.code, str))
    assert cProfile.Profile.enable is before
    again = begin_python_profile("cprofile", "total_time")
    assert again is not None
    assert again.stop() is not None


def test_pyinstrument_writes_what_it_reads(tmp_path: Path) -> None:
    recording = begin_python_profile("pyinstrument", "total_time")
    assert recording is not None
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until:
        busy()
    write = recording.stop()
    assert write is not None
    write(tmp_path)
    assert "busy" in (tmp_path / STATS_JSON).read_text()
    assert "<html" in (tmp_path / STATS_HTML).read_text()


def test_pyinstrument_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> object:
        if name.startswith("pyinstrument"):
            raise ModuleNotFoundError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match="pyinstrument is not installed"):
        begin_python_profile("pyinstrument", "total_time")


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"functions": [{}]}', b'{"functions": [{"file": 1}]}', b"\xff"],
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_functions(data, key="functions.json")


def test_the_longest_functions_are_kept() -> None:
    many = [FunctionTime("a.py", number, "f", 1, float(number), 1.0) for number in range(1000)]
    found = decode_functions(encode_functions(many), key="functions.json")
    assert [one.line for one in found] == list(range(999, 799, -1))
