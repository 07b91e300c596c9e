from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.local.process_table import Process, family, living_processes, parse_ps, parse_stat, signal_all

TAIL = "0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 8675309 10000 200"  # fields 6 to 24 of proc(5); 22 is the start time


@pytest.mark.parametrize(
    ("line", "process"),
    [
        pytest.param(f"10 (python) S 3 10 {TAIL}", (10, 3, 10, "8675309"), id="asleep"),
        pytest.param(f"10 (a b) c) R 3 9 {TAIL}", (10, 3, 9, "8675309"), id="name-with-bracket-and-blank"),
        pytest.param(f"10 (T) R) T 1 9 {TAIL}", (10, 1, 9, "8675309"), id="stopped"),
        pytest.param(f"10 (python) Z 3 10 {TAIL}", None, id="zombie"),
        pytest.param(f"10 (python) X 3 10 {TAIL}", None, id="dead"),
    ],
)
def test_reads_a_stat_line(line: str, process: tuple[int, int, int, str] | None) -> None:
    found = parse_stat(line)
    assert (found and (found.pid, found.parent, found.group, found.born)) == process


@pytest.mark.parametrize(
    ("line", "process"),
    [
        pytest.param(
            "  10   3  10 Ss   Sat Nov 21 01:22:00 2026", (10, 3, 10, "Sat Nov 21 01:22:00 2026"), id="asleep"
        ),
        pytest.param("  10   3  10 Z+   Sat Nov 21 01:22:00 2026", None, id="zombie"),
    ],
)
def test_reads_a_line_of_ps(line: str, process: tuple[int, int, int, str] | None) -> None:
    found = parse_ps(line)
    assert (found and (found.pid, found.parent, found.group, found.born)) == process


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_the_birth_of_a_process_is_the_one_that_the_kernel_tells() -> None:
    own = living_processes()[os.getpid()]
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert (own.parent, own.group, own.born) == (os.getppid(), os.getpgrp(), fields[22 - 3])


def table(*rows: tuple[int, int, int]) -> dict[int, Process]:
    return {pid: Process(pid, parent, group, born="1") for pid, parent, group in rows}


@pytest.mark.parametrize(
    ("known", "group", "expected"),
    [
        pytest.param([10], None, {10, 11, 12, 13}, id="everything-below"),
        pytest.param([11], None, {11, 12}, id="only-below"),
        pytest.param([], 10, {10, 11, 12, 13, 20}, id="the-group-and-below"),
        pytest.param([99], None, set(), id="ended"),
        pytest.param([], None, set(), id="nothing-known"),
    ],
)
def test_a_family_is_what_was_started_and_no_one_else(known: list[int], group: int | None, expected: set[int]) -> None:
    processes = table((1, 0, 1), (10, 1, 10), (11, 10, 10), (12, 11, 12), (13, 10, 13), (20, 1, 10), (30, 1, 30))
    assert {process.pid for process in family(processes, known, group=group)} == expected


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.integers(1, 30)), max_size=30), st.integers(1, 30))
def test_a_family_ends_and_is_closed_whatever_the_table_says(rows: list[tuple[int, int, int]], leader: int) -> None:
    """Tables are snapshots: parents may be missing, and a reused id may even close a circle."""
    processes = table(*rows)
    found = family(processes, [leader])
    pids = {process.pid for process in found}
    assert all(process in found for process in processes.values() if process.parent in pids)


def test_the_same_id_born_later_is_another_process_and_a_new_parent_changes_nothing() -> None:
    assert Process(5, 1, 5, "100") != Process(5, 1, 5, "200")
    assert Process(5, 1, 5, "100") == Process(5, 77, 6, "100")


def test_signalling_one_that_has_ended_is_no_error() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    signal_all([Process(child.pid, 1, 1, "1")], signal.SIGTERM)
