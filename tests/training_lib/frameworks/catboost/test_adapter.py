"""CatBoost, against its own record of metrics, and the same training without us. `make frameworks` runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training_lib.frameworks.captured_script import curve, opened, printed
from trackside.contracts.rule_request import RuleConfiguration
from trackside.evaluation.backtest import backtest

pytest.importorskip("catboost", reason="in the environment that `make frameworks` builds")

DATA = """
import json
import catboost, numpy as np

def data(rows, seed):
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, 5))
    return inputs, inputs[:, 0] + inputs[:, 1] ** 2 + random.normal(scale=0.3, size=rows)

(a, score), (c, others) = data(300, 0), data(150, 1)
b, d = (score > 0.5).astype(int), (others > 0.5).astype(int)
settings = dict(iterations=12, verbose=False, thread_count=1, random_seed=0, allow_writing_files=False, depth=3)
def show(model):
    print(json.dumps([model.get_evals_result(), model.predict(c).tobytes().hex()]))
"""
CASES = [
    pytest.param(
        "model = catboost.CatBoostClassifier(**settings, eval_metric='AUC').fit(a, b, eval_set=(c, d))",
        "Logloss", "validation", id="classifier",
    ),
    pytest.param(
        "model = catboost.CatBoostRegressor(**settings).fit(a, score, eval_set=(c, others))",
        "RMSE", "validation", id="regressor",
    ),
    pytest.param(
        "model = catboost.CatBoost({**settings, 'loss_function': 'MAE'})\n"
        "model.fit(catboost.Pool(a, score), eval_set=[catboost.Pool(c, others)])",
        "MAE", "validation", id="base",
    ),
    pytest.param(
        "model = catboost.train(catboost.Pool(a, score), {**settings, 'loss_function': 'Quantile:alpha=0.7'})",
        "Quantile:alpha=0.7", "", id="train",
    ),
    pytest.param(
        "class Own:\n    def after_iteration(self, info): return info.iteration < 6\n"
        "model = catboost.CatBoostRegressor(**settings).fit(a, score, callbacks=[Own()])",
        "RMSE", "", id="own-callback",
    ),
    pytest.param(
        "settings['iterations'] = 300\n"
        "model = catboost.CatBoostClassifier(**settings, learning_rate=0.5)\n"
        "model.fit(a, b, eval_set=(c, d), early_stopping_rounds=3)",
        "Logloss", "validation", id="early-stopping",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("script", "loss", "validation"), CASES)
def test_records_what_catboost_computes_and_changes_nothing(
    script: str, loss: str, validation: str, tmp_path: Path
) -> None:
    script = f"{DATA}{script}\nshow(model)"
    bare, _ = printed(script)
    captured, logged = printed(script, tmp_path / "run")
    assert captured == bare
    assert "trackside" not in logged
    log, _ = json.loads(captured)
    trial = opened(tmp_path / "run")
    assert trial.steps() == tuple(range(len(log["learn"][loss])))
    assert trial.has_ended
    name = loss if loss.lower().endswith("loss") else f"{loss}_loss"
    assert curve(trial, name, "TRAIN") == pytest.approx(log["learn"][loss], rel=1e-6)
    assert curve(trial, name, "EVAL") == pytest.approx(log[validation][loss] if validation else [], rel=1e-6)
    for of_set, metrics in log.items():
        for metric, values in metrics.items():
            for step in trial.steps():
                value = trial.value(f"{of_set}-{metric}", step=step, worker=trial.workers[0])
                assert value == pytest.approx(values[step])


def test_saves_settings_and_importances_with_the_last_round(tmp_path: Path) -> None:
    script = (
        f"{DATA}model = catboost.CatBoostClassifier(**settings).fit(a, b)\n"
        "print(json.dumps(model.feature_importances_.tolist()))"
    )
    scores = json.loads(printed(script, tmp_path / "run")[0])
    trial = opened(tmp_path / "run")
    worker, last = trial.workers[0], trial.steps()[-1]
    assert trial.value("hyperparameters/depth", step=last, worker=worker) == 3
    for feature, score in enumerate(scores):
        found = trial.value(f"feature_importance/weight/{feature}", step=last, worker=worker)
        assert found == pytest.approx([score / sum(scores)], rel=1e-6)


@pytest.mark.parametrize(
    ("script", "is_silent"),
    [
        pytest.param("for _ in range(2): catboost.CatBoostClassifier(**settings).fit(a, b)", False, id="two"),
        pytest.param("catboost.CatBoostClassifier(**settings).fit(a, b)", True, id="one"),
    ],
)
def test_the_first_training_has_the_run(script: str, is_silent: bool, tmp_path: Path) -> None:
    _, logged = printed(DATA + script, tmp_path / "run")
    assert len(opened(tmp_path / "run").steps()) == 12
    assert ("a further training" not in logged) == is_silent


@pytest.mark.parametrize(
    ("more", "labels", "rule", "is_found"),
    [
        pytest.param(
            "'depth': 8, 'iterations': 300, 'learning_rate': 0.3, 'l2_leaf_reg': 0",
            "np.random.default_rng(0).permutation(b)",
            RuleConfiguration("overfit"),
            True,
            id="random-labels",
        ),
        pytest.param("'iterations': 80", "b", RuleConfiguration("overfit"), False, id="no-overfit"),
        pytest.param(
            "'iterations': 200, 'learning_rate': 1e-6", "b", RuleConfiguration("loss-not-decreasing"), True, id="rate-0"
        ),
        pytest.param("'iterations': 80", "b", RuleConfiguration("loss-not-decreasing"), False, id="learns"),
        pytest.param(
            "'iterations': 20",
            "b",
            RuleConfiguration("feature-importance-overweight", parameters={"nfeatures": "4"}),
            True,
            id="few-features",
        ),
        pytest.param(
            "'iterations': 20",
            "b",
            RuleConfiguration("feature-importance-overweight", parameters={"nfeatures": "1", "threshold": "0.99"}),
            False,
            id="several-features",
        ),
    ],
)
def test_rules_judge_it(more: str, labels: str, rule: RuleConfiguration, is_found: bool, tmp_path: Path) -> None:
    script = f"{DATA}catboost.CatBoostClassifier(**{{**settings, {more}}}).fit(a, {labels}, eval_set=(c, d))"
    printed(script, tmp_path / "run")
    found = backtest(str(tmp_path / "run"), [rule], clock=lambda: 0.0)
    assert bool(found.issues) == is_found


def test_errors_of_the_script_pass_through(tmp_path: Path) -> None:
    script = DATA + (
        "\ntry: catboost.CatBoostClassifier(**settings).fit(wrong=1)\nexcept TypeError as error: print(error)\n"
        "try: catboost.CatBoostClassifier(**settings).fit(a, b[:3])\n"
        "except catboost.CatBoostError as error: print(type(error))"
    )
    assert printed(script)[0] == printed(script, tmp_path / "run")[0] != ""


@pytest.mark.parametrize("run", ["ftp://host/run", "{file}/run"])
def test_a_run_that_cannot_be_stored_costs_the_training_nothing(run: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    script = f"{DATA}show(catboost.CatBoostClassifier(**settings).fit(a, b))"
    captured, logged = printed(script, run.format(file=tmp_path / "file"))  # type: ignore[arg-type] # an address
    assert captured == printed(script)[0]
    assert "trackside: " in logged
