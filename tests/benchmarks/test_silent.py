"""Silent errors, re-made: some are trained and judged, each beside its twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.silent.__main__ import issues, train
from benchmarks.silent.programs import ON_TWO_RANKS, PROGRAMS


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("collapsed-batch", "repeated-data"),
        ("spectral-norm-in-eval-mode", "stale-statistics"),
        ("outside-of-autocast", "outside-autocast"),
    ],
)
def test_a_silent_error_is_found_beyond_its_twin(tmp_path: Path, name: str, rule: str) -> None:
    for state in ("clean", "faulty"):
        train(name, tmp_path / state, is_faulty=state == "faulty")
        assert (rule in issues(tmp_path / state)) is (state == "faulty")


def test_programs_of_two_ranks_exist() -> None:
    assert set(PROGRAMS) > ON_TWO_RANKS
    assert all(program.__doc__ for program in PROGRAMS.values())
