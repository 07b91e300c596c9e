"""The choice of how near learned weights stay to the expected ones, and the expected ones themselves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.detection.learn_causes import CAUSES, evidence_names, prior_weights, tightest_as_good
from benchmarks.detection.learned_runs import stored_mutants
from benchmarks.engine.stored import Outcome
from benchmarks.mutants.operator import TUNE, all_operators
from benchmarks.mutants.stored_runs import LOSSES, Mutant, mutants
from benchmarks.mutants.subjects import all_subjects
from trackside.diagnosis.signs import FOUND


@pytest.mark.parametrize(
    ("by_fold", "chosen"),
    [
        pytest.param({0.1: [0.1, 0.2, 0.3], 1.0: [0.11, 0.21, 0.31]}, 1.0, id="a-gain-that-chance-explains"),
        pytest.param({0.1: [0.1, 0.1, 0.11], 1.0: [0.3, 0.3, 0.3]}, 0.1, id="a-certain-gain"),
        pytest.param({0.1: [0.3, 0.3, 0.3], 1.0: [0.1, 0.1, 0.1]}, 1.0, id="the-tightest-is-best"),
        pytest.param({0.1: [0.1, 0.2], 0.3: [0.1, 0.25], 1.0: [0.5, 0.6]}, 0.3, id="the-middle"),
    ],
)
def test_the_tightest_that_is_as_good_is_chosen(by_fold: dict[float, list[float]], chosen: float) -> None:
    assert tightest_as_good({tightness: np.array(found) for tightness, found in by_fold.items()}) == chosen


def test_every_piece_of_evidence_has_expected_weights() -> None:
    names = evidence_names()
    weights = prior_weights(names)
    assert weights.shape == (1 + 2 * len(names), len(CAUSES))
    assert weights[1 + names.index(FOUND + "overfit")].max() == 1.5


@pytest.mark.parametrize(
    ("operator", "score", "touched", "is_learned_from"),
    [
        pytest.param("loss-negated", 0.3, 9, True, id="it-lost-a-tenth"),
        pytest.param("loss-negated", None, 9, True, id="no-score-at-all"),
        pytest.param("loss-negated", 0.85, 9, False, id="it-lost-less"),
        pytest.param("loss-negated", 0.3, 0, False, id="nothing-was-reached"),
        pytest.param("gradients-kept", 0.9, 9, True, id="a-silent-one"),
        pytest.param("activations-removed", 0.3, 9, False, id="no-cause-has-its-name"),
    ],
)
def test_mutants_to_learn_from(
    *, operator: str, score: float | None, touched: int, is_learned_from: bool, tmp_path: Path
) -> None:
    subject = next(each for each in all_subjects() if each.name == "wine-mlp")
    twin = next(each for each in mutants([subject], half=TUNE, seeds=1) if each.operator is None)
    planted = Mutant(subject, all_operators()[operator], twin.seed)
    for one, found in ((twin, 0.9), (planted, score)):
        folder = one.folder(tmp_path)
        folder.mkdir(parents=True)
        (folder / LOSSES).write_text(json.dumps({"touched": touched, "series": {}}))
        Outcome(0, found, 1.0).write(folder)
    assert [each.name for each in stored_mutants(tmp_path)] == ([planted.name] if is_learned_from else [])
