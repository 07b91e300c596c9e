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


@pytest.mark.parametrize(
    ("more", "labels", "valued"),
    [
        pytest.param("iterations=25, metric_period=10", "b", [0, 10, 20, 24], id="period"),
        pytest.param("iterations=21, metric_period=10", "b", [0, 10, 20], id="period-that-ends-with-the-last"),
        pytest.param("iterations=3, verbose=2", "b", [0, 1, 2], id="every-round"),
    ],
)
def test_a_value_has_the_number_of_its_round(more: str, labels: str, valued: list[int], tmp_path: Path) -> None:
    script = (
        f"{DATA}model = catboost.CatBoostClassifier(**dict(settings, {more})).fit(a, {labels}, eval_set=(c, d))\n"
        "from trackside.adapters.catboost.adapter import _rounds_of\n"
        "rounds = list(_rounds_of(model.get_evals_result(), model))\n"
        "print(json.dumps([k for k, found in enumerate(rounds) if found]))"
    )
    without_callbacks = json.loads(printed(script, tmp_path / "run")[0].splitlines()[-1])
    trial = opened(tmp_path / "run")
    assert list(trial.steps()) == valued == without_callbacks
    for mode in ("TRAIN", "EVAL"):
        columns = trial.columns("Logloss_output_0", "mean", last_step=10**9, mode=mode)
        assert [step for column in columns for step in column.steps.tolist()] == valued


def test_a_training_without_a_value_has_rounds_and_no_loss(tmp_path: Path) -> None:
    script = DATA + (
        "groups = np.repeat(np.arange(30), 10)\n"
        "model = catboost.CatBoostRanker(**{**settings, 'iterations': 40, 'loss_function': 'YetiRank'})\n"
        "model.fit(a, b, group_id=groups)\nprint(model.get_evals_result())"
    )
    assert printed(script, tmp_path / "run")[0] == "{'learn': {}}\n"
    names = ("loss-not-decreasing", "loss-spike", "exploding-tensor")
    found = backtest(str(tmp_path / "run"), [RuleConfiguration(name) for name in names], clock=lambda: 0.0)
    assert [verdict.outcome.value for verdict in found.verdicts] == ["not-evaluated"] * len(names)
    assert "no metric that falls" in found.verdicts[0].message


@pytest.mark.parametrize(
    ("metric", "is_loss"),
    [
        pytest.param("Logloss", True, id="loss"),
        pytest.param("Quantile:alpha=0.7", True, id="with-a-parameter"),
        pytest.param("PairLogitPairwise", True, id="not-made-outside-a-training"),
        pytest.param("AUC", False, id="rises"),
        pytest.param("NDCG:type=Base", False, id="ranking"),
        pytest.param("Cox", False, id="likelihood"),
        pytest.param("OfTheScript", False, id="unknown"),
    ],
)
def test_catboost_gives_the_direction_of_its_metrics(metric: str, is_loss: bool) -> None:
    from trackside.adapters.catboost.adapter import falls

    assert falls(metric) == is_loss


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
