"""Events under faults through real function processes, in its small form; `python -m benchmarks.faults.real` is the
large one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.faults.real import STORM, play_real
from stacks.assembly import assembly

pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process


def test_nothing_is_lost_and_nothing_is_wrong() -> None:
    # No deaths here: what a death leaves claimed is free again after 30 s only. The large form has them.
    faults = replace(STORM, seed=4, throttle=0.05, crash_before=0, crash_after=0, delay_seconds=0.5)
    result = play_real(assembly(), faults, events=12)
    assert result.lost == result.wrong == ()
    assert result.repeated == 0
    assert result.events == 12
    assert result.faults["delay"] > 0
