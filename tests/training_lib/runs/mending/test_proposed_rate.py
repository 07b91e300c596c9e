"""The rate to try first: from the first steps, where they are far off; else nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackside.runs.mending.proposed_rate import proposed_rate
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics

NAN = float("nan")


def run_of(folder: Path, *updates: float) -> str:
    """Return a run in which one step after the other changed a weight by this share of its size."""
    tensors = LocalStore(folder / "run" / "debug-output")
    write_collections(tensors, extra={}, workers=("worker_0",))
    ratios = dict(enumerate(updates))
    write_statistics(LocalStore(folder / "run" / "statistics"), {"Net_fc.weight": {"update_ratio": ratios}})
    end_run(tensors)
    return str(folder / "run")


@pytest.mark.parametrize(
    ("updates", "is_too_high", "proposed"),
    [
        pytest.param([2.0, 1.0, 0.1], True, 0.0005, id="first-steps-tear-the-weights"),
        pytest.param([1e-8, 1e-8], False, 1e5, id="first-steps-hardly-move-them"),
        pytest.param([0.01, 0.01], True, None, id="first-steps-are-usual"),
        pytest.param([0.02, 0.02], True, None, id="a-little-large"),
        pytest.param([1e-8], True, None, id="small-and-said-to-be-too-high"),
        pytest.param([2.0], False, None, id="large-and-said-to-be-too-low"),
        pytest.param([0.0, 0.0], False, None, id="nothing-moves"),
        pytest.param([NAN, NAN], True, None, id="no-number"),
        pytest.param([float("inf")], True, None, id="no-end"),
    ],
)
def test_the_rate_by_the_first_steps(
    updates: list[float], is_too_high: bool, proposed: float | None, tmp_path: Path
) -> None:
    found = proposed_rate(run_of(tmp_path, *updates), 0.1, is_too_high=is_too_high)
    assert found == (None if proposed is None else pytest.approx(proposed))


def test_a_run_without_weights_and_no_run(tmp_path: Path) -> None:
    assert proposed_rate(run_of(tmp_path), 0.1, is_too_high=True) is None
    assert proposed_rate(str(tmp_path / "none"), 0.1, is_too_high=True) is None
    assert proposed_rate("memory://log/a", 0.1, is_too_high=True) is None
