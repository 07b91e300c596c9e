"""Workers that are killed while they judge: every run is judged, every verdict said once."""

from __future__ import annotations

import pytest

from benchmarks.fleet_kills import play

pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process


def test_half_of_the_workers_are_killed_and_every_run_is_judged_once() -> None:
    runs, rules = 12, 4
    found = play(workers=4, runs=runs, seed=1, replace=False)
    assert found.kills == 2
    assert found.leases > runs, "nobody was killed while it judged, so nothing was shown"
    assert (found.unfinished, found.lost, found.double, found.different) == ([], [], [], [])
    assert found.verdicts == runs * rules
