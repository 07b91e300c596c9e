"""The timeline: the real smdebug reads the steps and phases that we export, by time and by steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.smdebug.conftest import Peer
from tests.training_lib.exchange.timed_run import FIRST_END, SECONDS, write_timed_run
from trackside.exchange.timeline import STEP, export_timeline
from trackside.trial.trial import open_trial

STEPS = 20


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The timeline of a run of 20 steps."""
    folder = tmp_path_factory.mktemp("timeline")
    uri = write_timed_run(folder / "run", steps=STEPS)
    export_timeline(uri, open_trial(uri), folder / "out")
    return folder / "out"


def test_the_original_reads_every_step(exported: Path, peer: Peer) -> None:
    order = {"folder": str(exported), "by": "time", "start": 0, "end": 4e15}
    events = peer("timeline", order)["events"]
    steps = [event for event in events if event[1] == STEP]
    assert [event[5]["step_num"] for event in steps] == [str(step) for step in range(1, STEPS)]
    for number, (_, _, start, duration, node, _) in enumerate(steps, 1):
        assert start == pytest.approx((FIRST_END + number - 1 - SECONDS) * 1e6, abs=2)
        assert duration == pytest.approx(SECONDS * 1e6, abs=2)
        assert node == "worker-0"
    assert {event[1] for event in events} == {
        STEP,
        "DataLoaderIter::GetNext",
        "Forward",
        "Backward(post-forward)",
        "Optimizer",
    }


@pytest.mark.parametrize(("first", "last"), [(5, 8), (1, 19)])
def test_the_original_finds_steps_by_number(exported: Path, peer: Peer, first: int, last: int) -> None:
    order = {"folder": str(exported), "by": "step", "start": first, "end": last}
    steps = {int(event[5]["step_num"]) for event in peer("timeline", order)["events"] if event[1] == STEP}
    assert set(range(first + 1, last)) <= steps
    assert steps <= set(range(first - 1, last + 2))
