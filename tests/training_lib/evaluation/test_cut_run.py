"""The end of a rehearsal is not the end of its training."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackside.contracts.run.check import ProcessReport
from trackside.contracts.run_layout import TENSORS, check_key
from trackside.evaluation.cut_run import is_cut
from trackside.evaluation.other_runs import OtherRuns
from trackside.evaluation.steps_to_judge import StepsToJudge
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial

CUT = ProcessReport("worker_0", 50, is_done=True, is_cut=True).to_json()
BY_ITSELF = ProcessReport("worker_0", 13, is_done=True).to_json()


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        pytest.param([], False, id="no-rehearsal"),
        pytest.param([BY_ITSELF], False, id="the-script-ended-by-itself"),
        pytest.param([CUT], True, id="cut"),
        pytest.param([BY_ITSELF, CUT], True, id="one-of-two-processes-cut"),
        pytest.param(["{"], False, id="not-to-be-read"),
    ],
)
def test_a_cut_run_has_no_last_step_for_rules(tmp_path: Path, reports: list[str], expected: bool) -> None:
    run, tensors = LocalStore(tmp_path), LocalStore(tmp_path / TENSORS)
    write_collections(tensors)
    write_tensors(tensors, 0, {"Loss_output_0": 1.0})
    end_run(tensors)
    for number, text in enumerate(reports):
        run.put(check_key(f"worker_{number}"), text.encode())
    steps = StepsToJudge(Trial(tensors), OtherRuns([], open_store), is_cut=lambda: is_cut(run))
    assert steps.at(0, 0.0, is_last=False).window.is_last is False
    last = steps.at(0, 0.0, is_last=True)
    assert (last.is_last, last.window.is_last) == (True, not expected)
