"""The importances of a boosting, against those that XGBoost itself computes after each round."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trackside

xgboost = pytest.importorskip("xgboost")

from xgboost.callback import TrainingCallback  # noqa: E402 - after the check for xgboost

from trackside.adapters.xgboost import importances as subject  # noqa: E402
from trackside.adapters.xgboost.importances import IMPORTANCES, Importance, Importances  # noqa: E402
from trackside.capture.ground.guard import Guard  # noqa: E402 - after the check for xgboost


def rows(labels: int = 0, *, names: list[str] | None = None) -> Any:
    random = np.random.default_rng(0)
    answers = random.integers(0, labels, 60) if labels else random.normal(size=60)
    return xgboost.DMatrix(random.normal(size=(60, 4)), answers, feature_names=names)


def expected(model: Any) -> dict[str, float]:
    """Return the shares by the original's way: one walk of all trees for each kind."""
    found: dict[str, float] = {}
    for kind in IMPORTANCES:
        scores = model.get_score(importance_type=kind)
        total = sum(scores.values())
        found |= {f"feature_importance/{kind}/{name}": score / total for name, score in scores.items()}
    return found


def shares_of(found: Importance) -> list[tuple[str, Any]]:
    row = found.row()
    return [] if row is None else list(zip(row.layout.record_names, row.numbers, strict=True))


class Compared(TrainingCallback):
    """A callback that notes both after each round with importances due."""

    def __init__(self, importances: Importances, *, every: int = 1) -> None:
        self._importances, self._every = importances, every
        self.pairs: list[tuple[Importance, dict[str, float]]] = []

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch % self._every == 0:
            found = self._importances.read(model)
            assert found is not None
            self.pairs.append((found, expected(model)))
        return False

    def check(self) -> None:
        for found, shares in self.pairs:
            assert found.is_ready()
            values = {name: float(value[0]) for name, value in shares_of(found)}
            assert values == pytest.approx(shares, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        pytest.param({}, 0, id="trees are added"),
        pytest.param({"booster": "dart", "rate_drop": 0.1}, 0, id="trees are dropped"),
        pytest.param({"num_parallel_tree": 2, "subsample": 0.5}, 0, id="several a round"),
        pytest.param({"objective": "multi:softprob", "num_class": 3}, 3, id="one for each class"),
        pytest.param({"gamma": 5.0}, 0, id="trees that are pruned to their root"),
        pytest.param({"tree_method": "exact", "gamma": 0.5}, 0, id="pruned nodes stay in the arrays"),
        pytest.param({"grow_policy": "lossguide", "max_leaves": 5}, 0, id="leaf by leaf"),
    ],
)
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["rounds wait", "no round waits"])
def test_they_are_xgboosts_after_each_round(settings: dict[str, Any], labels: int, every: int, seconds: float) -> None:
    now = [0.0]

    def monotonic() -> float:
        now[0] += seconds
        return now[0]

    importances = Importances(Guard(), monotonic=monotonic)
    compared = Compared(importances, every=every)
    xgboost.train({"max_depth": 2, "nthread": 1, "eta": 0.05, **settings}, rows(labels), 90, callbacks=[compared])
    importances.copy_trees()
    compared.check()
    assert len(compared.pairs) == 90 // every + (every > 1)


def test_they_continue_those_of_an_earlier_model() -> None:
    earlier = xgboost.train({"max_depth": 2, "nthread": 1}, rows(), 20)
    importances = Importances(Guard())
    compared = Compared(importances)
    xgboost.train({"max_depth": 2, "nthread": 1}, rows(), 20, xgb_model=earlier, callbacks=[compared])
    importances.copy_trees()
    compared.check()


def test_features_keep_their_names() -> None:
    importances = Importances(Guard())
    compared = Compared(importances)
    matrix = rows(names=["age", "größe", "left_children", "d"])
    xgboost.train({"max_depth": 3, "nthread": 1}, matrix, 10, callbacks=[compared])
    importances.copy_trees()
    compared.check()


def test_a_linear_model_has_none() -> None:
    model = xgboost.train({"booster": "gblinear", "nthread": 1}, rows(), 3)
    assert Importances(Guard()).read(model) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("_DEAR_ROUND", 1, id="each round is dear"),
        pytest.param("_MOST_WAITING", 3, id="few rounds wait"),
    ],
)
def test_bounds_do_not_change_them(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, name, value)
    importances = Importances(Guard())
    compared = Compared(importances)
    xgboost.train({"max_depth": 2, "nthread": 1}, rows(), 20, callbacks=[compared])
    importances.copy_trees()
    compared.check()


def test_trees_that_no_step_asks_for_are_forgotten_and_later_rounds_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_MOST_BYTES", 20_000)
    importances = Importances(Guard(), monotonic=iter(range(10_000)).__next__)
    compared = Compared(importances)
    xgboost.train({"max_depth": 3, "nthread": 1}, rows(), 60, callbacks=[compared])
    importances.copy_trees()
    are_known = [bool(shares_of(found)) for found, _ in compared.pairs]
    assert are_known[0]
    assert are_known[-1]
    assert not all(are_known)
    compared.pairs = [pair for pair, is_known in zip(compared.pairs, are_known, strict=True) if is_known]
    compared.check()


def test_trees_of_an_unknown_form_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject.ubjson, "read", lambda trees: {})
    importances = Importances(Guard(), monotonic=iter(range(10_000)).__next__)

    class Stored(Compared):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            ended = super().after_iteration(model, epoch, evals_log)
            shares_of(self.pairs[-1][0])  # as the writer does
            return ended

    compared = Stored(importances)
    xgboost.train({"max_depth": 2, "nthread": 1}, rows(), 10, callbacks=[compared])
    assert [bool(shares_of(found)) for found, _ in compared.pairs] == [True, False, *[True] * 8]


@pytest.mark.parametrize("is_other", [True, False], ids=["another thread", "the thread that trains"])
def test_no_other_thread_reads_a_model_that_grows(is_other: bool, caplog: pytest.LogCaptureFixture) -> None:
    importances = Importances(Guard(), monotonic=lambda: 1.0)
    compared = Compared(importances)
    xgboost.train({"max_depth": 2, "nthread": 1}, rows(), 5, callbacks=[compared])
    if is_other:
        other = threading.Thread(target=importances.copy_trees)
        other.start()
        other.join()
    else:
        importances.copy_trees()
    assert all(found.is_ready() for found, _ in compared.pairs)
    assert bool(shares_of(compared.pairs[-1][0])) == (not is_other)
    assert ("importances of 3 rounds are not saved" in caplog.text) == is_other


@pytest.mark.parametrize(
    ("by", "is_whole"),
    [
        pytest.param("the training", True, id="the thread that trains"),
        pytest.param("another", True, id="another thread, while the training goes on"),
        pytest.param("the main thread, later", True, id="another thread, after that of the training has failed"),
        pytest.param("another, awaited", False, id="another thread, which the training waits for"),
    ],
)
def test_a_run_that_any_thread_ends(by: str, is_whole: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Closes(TrainingCallback):
        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if epoch != 20:
                return False
            if by == "the main thread, later":
                raise KeyError
            if by == "the training":
                hook.close()
                return False
            closing.start()
            if by == "another, awaited":
                closing.join()
            return False

    def train() -> None:
        settings, sets, callbacks = {"max_depth": 2, "nthread": 1}, [(matrix, "train")], [hook, Closes()]
        with contextlib.suppress(KeyError):
            xgboost.train(settings, matrix, 60, evals=sets, callbacks=callbacks, verbose_eval=False)

    hook, matrix = trackside.XGBoostHook(str(tmp_path), save={"feature_importance": 1}), rows()
    closing, training = threading.Thread(target=hook.close), threading.Thread(target=train)
    training.start()
    training.join()
    if closing.ident is not None:
        closing.join()
    hook.close()
    trial = trackside.open_trial(str(tmp_path))
    steps = {step for name in trial.tensor_names(collection="feature_importance") for step in trial.tensor(name).steps}
    assert (steps >= set(range(20))) == is_whole
    assert ("importances of" in caplog.text) == (not is_whole)
    assert "failed" not in caplog.text


@pytest.mark.parametrize("ends", ["by its end", "by an error", "by early stopping"])
def test_every_round_of_a_run_has_them(ends: str, tmp_path: Path) -> None:
    class Ends(TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if epoch == 29 and ends == "by an error":
                raise RuntimeError
            return epoch == 29 and ends == "by early stopping"

    count = 30 if ends == "by its end" else 100
    matrix = rows()
    with trackside.XGBoostHook(str(tmp_path), save={"metrics": 1, "feature_importance": 1}) as hook:
        sets, callbacks = [(matrix, "train")], [hook, Ends()]
        with contextlib.suppress(RuntimeError):
            xgboost.train(
                {"max_depth": 2, "nthread": 1}, matrix, count, evals=sets, callbacks=callbacks, verbose_eval=False
            )
    trial = trackside.open_trial(str(tmp_path))
    steps = {step for k in range(4) for step in trial.tensor(f"feature_importance/weight/f{k}").steps}
    assert steps == set(range(30 if ends != "by an error" else 29))
