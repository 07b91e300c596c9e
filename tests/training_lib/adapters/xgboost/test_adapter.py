"""XGBoost, against XGBoost's own answers: its log of evaluations, and the same model cut off after each round."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from numpy.typing import NDArray
from sklearn.base import clone

import trackside
from tests.patience import HANGS_SECONDS
from tests.warm_python import WarmPython
from trackside.adapters.xgboost import model_data, rounds
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.errors import ConfigurationError, TensorNotSavedError
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run.profiling_request import ProfilingRequest, Window
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome
from trackside.environment import inherited
from trackside.evaluation.backtest import backtest
from trackside.speed.performance.details import PYTHON, read_details
from trackside.storage.open_store import open_store
from trackside.trial.trial import Trial

Array = NDArray[Any]

ROUNDS = 12
METRICS = CaptureRequest((CollectionRequest("metrics", Schedule(1)),))
EVERYTHING = dict.fromkeys(
    ("metrics", "losses", "hyperparameters", "feature_importance", "trees", "labels", "predictions"), 1
)
KINDS: dict[str, dict[str, Any]] = {
    "binary": {"objective": "binary:logistic"},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "numbers": {"objective": "reg:squarederror"},
}


def data(kind: str, rows: int = 300, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, 5))
    score = inputs[:, 0] + 0.5 * inputs[:, 1] ** 2 + random.normal(scale=0.3, size=rows)
    if kind == "numbers":
        return inputs, score
    return inputs, np.digitize(score, [0.3] if kind == "binary" else [0.0, 0.8]).astype(np.int64)


def sets(kind: str) -> tuple[xgboost.DMatrix, xgboost.DMatrix]:
    (a, b), (c, d) = data(kind), data(kind, rows=120, seed=1)
    return xgboost.DMatrix(a, b), xgboost.DMatrix(c, d)


def boost(kind: str, *callbacks: Any, rounds: int = ROUNDS, log: Any = None, **settings: Any) -> xgboost.Booster:
    training, validation = sets(kind)
    chosen = {"nthread": 1, "max_depth": 3, "seed": 7, "subsample": 0.8, **KINDS[kind], **settings}
    return xgboost.train(
        {name: setting for name, setting in chosen.items() if setting is not None},
        training,
        rounds,
        evals=[(training, "train"), (validation, "validation")],
        evals_result=log,
        verbose_eval=False,
        callbacks=list(callbacks),
    )


def opened(run: Path) -> Trial:
    return trackside.open_trial(str(run))


def value(trial: Trial, name: str, step: int) -> Array:
    return trial.value(name, step=step, worker=trial.workers[0])


@pytest.mark.parametrize("kind", KINDS)
def test_saves_what_xgboost_computes(kind: str, tmp_path: Path) -> None:
    log: dict[str, dict[str, list[float]]] = {}
    with trackside.XGBoostHook(str(tmp_path), save=EVERYTHING) as hook:
        model = boost(kind, hook, log=log)
    trial = opened(tmp_path)
    _, validation = sets(kind)
    assert trial.steps() == tuple(range(ROUNDS))
    assert {trial.mode_of(step) for step in trial.steps()} == {"TRAIN"}
    for step in trial.steps():
        so_far = model[: step + 1]
        for name, metrics in log.items():
            for metric, values in metrics.items():
                assert value(trial, f"{name}-{metric}", step) == pytest.approx(values[step])
        assert np.allclose(value(trial, "predictions", step), so_far.predict(validation))
        assert np.array_equal(value(trial, "labels", step), validation.get_label())
        for importance in ("weight", "gain", "cover", "total_gain", "total_cover"):
            scores = so_far.get_score(importance_type=importance)
            found = {name: float(value(trial, f"feature_importance/{importance}/{name}", step)[0]) for name in scores}
            assert found == pytest.approx({name: score / sum(scores.values()) for name, score in scores.items()})
    assert set(trial.tensor_names(collection="metrics")) == {f"{s}-{m}" for s, ms in log.items() for m in ms}


@pytest.mark.parametrize("kind", KINDS)
def test_trees_are_those_of_xgboosts_own_table(kind: str, tmp_path: Path) -> None:
    with trackside.XGBoostHook(str(tmp_path), save={"trees": 1}) as hook:
        model = boost(kind, hook)
    trial = opened(tmp_path)
    table = model.trees_to_dataframe()
    per_round = table["Tree"].nunique() // ROUNDS
    for step in trial.steps():
        expected = table[table["Tree"] // per_round == step]
        for name in ("Tree", "Node", "Split", "Gain", "Cover"):
            assert np.allclose(value(trial, f"trees/{name}", step), expected[name].to_numpy(float), equal_nan=True), (
                name
            )
        for name in ("ID", "Feature", "Yes", "No", "Missing"):
            assert value(trial, f"trees/{name}", step).astype(str).tolist() == [
                text if isinstance(text, str) else "nan" for text in expected[name]
            ], name


@pytest.mark.parametrize("kind", ["binary", "classes"])
def test_trees_of_a_continued_training_are_its_own(kind: str, tmp_path: Path) -> None:
    first = boost(kind, max_depth=1)
    training, _ = sets(kind)
    with trackside.XGBoostHook(str(tmp_path), save={"trees": 1}) as hook:
        chosen = {"nthread": 1, "max_depth": 4, **KINDS[kind]}
        model = xgboost.train(chosen, training, 4, xgb_model=first, callbacks=[hook])
    trial = opened(tmp_path)
    table = model.trees_to_dataframe()
    per_round = table["Tree"].nunique() // (ROUNDS + 4)
    assert trial.steps() == (0, 1, 2, 3)  # XGBoost counts the rounds of each training from 0
    for step in trial.steps():
        expected = table[table["Tree"] // per_round == ROUNDS + step]
        for name in ("Tree", "Node", "Gain"):
            assert np.allclose(value(trial, f"trees/{name}", step), expected[name].to_numpy(float)), name


def likely_ages(eta: float) -> tuple[xgboost.DMatrix, dict[str, Any]]:
    """Return censored ages and settings of an accelerated failure time model."""
    inputs, score = data("numbers", rows=400)
    training = xgboost.DMatrix(inputs)
    training.set_float_info("label_lower_bound", np.exp(score))
    training.set_float_info("label_upper_bound", np.where(inputs[:, 4] > 1, np.inf, np.exp(score)))
    return training, {"objective": "survival:aft", "eval_metric": "aft-nloglik", "nthread": 1, "eta": eta}


@pytest.mark.parametrize(
    ("eta", "rounds", "goes_on", "outcome"),
    [
        pytest.param(50.0, 60, False, Outcome.ISSUE_FOUND, id="rate-too-high"),
        pytest.param(50.0, 30, False, Outcome.NOT_EVALUATED, id="rate-too-high-and-few-rounds"),
        pytest.param(0.05, 60, False, Outcome.CLEAN, id="learns"),
        pytest.param(0.001, 60, True, Outcome.NOT_EVALUATED, id="goes-on-where-another-ended"),
    ],
)
def test_a_loss_that_never_gets_better_is_no_clean_bill_of_health(
    eta: float, rounds: int, goes_on: bool, outcome: Outcome, tmp_path: Path
) -> None:
    training, settings = likely_ages(eta)
    before = xgboost.train({**settings, "eta": 0.3}, training, 100) if goes_on else None
    with trackside.XGBoostHook(str(tmp_path), save={"metrics": 1}) as hook:
        xgboost.train(
            settings, training, rounds, xgb_model=before, evals=[(training, "train")], verbose_eval=False,
            callbacks=[hook],
        )  # fmt: skip
    found = backtest(str(tmp_path), [RuleConfiguration("loss-not-decreasing")], clock=lambda: 0.0)
    assert [verdict.outcome for verdict in found.verdicts] == [outcome]


def test_a_ranking_lacks_a_loss(tmp_path: Path) -> None:
    inputs, score = data("numbers")
    training = xgboost.DMatrix(inputs, np.digitize(score, [0, 1, 2]), qid=np.repeat(np.arange(30), 10))
    with trackside.XGBoostHook(str(tmp_path), save={"metrics": 1}) as hook:
        chosen = {"objective": "rank:ndcg", "nthread": 1}
        xgboost.train(chosen, training, 50, evals=[(training, "train")], verbose_eval=False, callbacks=[hook])
    names = ("loss-not-decreasing", "loss-spike", "exploding-tensor", "overfit")
    found = backtest(str(tmp_path), [RuleConfiguration(name) for name in names], clock=lambda: 0.0)
    assert [verdict.outcome for verdict in found.verdicts] == [Outcome.NOT_EVALUATED] * len(names)
    assert all("no metric that falls" in verdict.message for verdict in found.verdicts)


def test_contributions_add_up_to_the_margin_and_are_off_by_default(tmp_path: Path) -> None:
    training, _ = sets("binary")
    with trackside.XGBoostHook(str(tmp_path / "a"), save={"average_shap": 4, "full_shap": 4}, shap_rows=10**6) as hook:
        model = boost("binary", hook)
    trial = opened(tmp_path / "a")
    for step in (0, 4, 8):
        values = value(trial, "full_shap/f0", step)
        assert np.allclose(values.sum(axis=1), model[: step + 1].predict(training, output_margin=True), atol=1e-4)
        for column, name in enumerate(("f0", "f1", "f2", "f3", "f4", "bias")):
            assert value(trial, f"average_shap/{name}", step) == pytest.approx(values[:, column].mean(), rel=1e-4)
    with trackside.XGBoostHook(str(tmp_path / "b"), save={"all": 1}) as hook:
        boost("binary", hook, rounds=2)
    assert not [name for name in opened(tmp_path / "b").tensor_names(collection="all") if "shap" in name]


def test_settings_of_the_model_and_given_ones(tmp_path: Path) -> None:
    with trackside.XGBoostHook(str(tmp_path / "a"), save={"hyperparameters": 100}) as hook:
        boost("binary", hook, rounds=2, eta=0.25)
    trial = opened(tmp_path / "a")
    found = {n: value(trial, f"hyperparameters/{n}", 0)[0] for n in ("max_depth", "eta", "subsample", "objective")}
    assert found == {"max_depth": 3.0, "eta": 0.25, "subsample": pytest.approx(0.8), "objective": "binary:logistic"}
    with trackside.XGBoostHook(
        str(tmp_path / "b"), save={"hyperparameters": 100}, hyperparameters={"mine": 3, "name": "x"}
    ) as hook:
        boost("binary", hook, rounds=2)
    assert set(opened(tmp_path / "b").tensor_names(collection="hyperparameters")) == {
        "hyperparameters/mine",
        "hyperparameters/name",
    }


def test_losses_of_every_round_are_recorded_in_both_modes(tmp_path: Path) -> None:
    log: dict[str, dict[str, list[float]]] = {}
    request = CaptureRequest((), statistics=StatisticsRequest(budget=1.0))
    with trackside.XGBoostHook(str(tmp_path), save=request) as hook:
        boost("binary", hook, log=log, eval_metric=["auc", "error", "logloss"])
    trial = opened(tmp_path)
    for mode, name in (("TRAIN", "train"), ("EVAL", "validation")):
        (column,) = trial.columns("logloss_output_0", "mean", last_step=10**9, mode=mode)
        assert column.steps.tolist() == list(range(ROUNDS))
        assert column.values == pytest.approx(log[name]["logloss"])


def _estimator(hook: Any) -> xgboost.XGBClassifier:
    inputs, labels = data("binary")
    others = data("binary", rows=120, seed=1)
    model = xgboost.XGBClassifier(n_estimators=ROUNDS, max_depth=3, n_jobs=1, callbacks=[hook] if hook else None)
    return model.fit(inputs, labels, eval_set=[(inputs, labels), others], verbose=False)


def _cv(hook: Any) -> Any:
    training, _ = sets("binary")
    settings = {"nthread": 1, "max_depth": 3, **KINDS["binary"]}
    return xgboost.cv(settings, training, ROUNDS, nfold=3, as_pandas=False, callbacks=[hook] if hook else None)


@pytest.mark.parametrize(
    ("train", "names"),
    [
        pytest.param(_estimator, {"validation_0-logloss", "validation_1-logloss"}, id="estimator"),
        pytest.param(_cv, {"train-logloss", "test-logloss"}, id="cv"),
    ],
)
def test_other_ways_in(train: Callable[[Any], Any], names: set[str], tmp_path: Path) -> None:
    with trackside.XGBoostHook(str(tmp_path), save={**EVERYTHING, "losses": 1}) as hook:
        train(hook)
    trial = opened(tmp_path)
    assert trial.steps() == tuple(range(ROUNDS))
    assert set(trial.tensor_names(collection="metrics")) == names
    for mode in ("TRAIN", "EVAL"):
        (column,) = trial.columns("logloss_output_0", "mean", last_step=10**9, mode=mode)
        assert len(column.values) == ROUNDS


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="trees"),
        pytest.param({"booster": "dart", "rate_drop": 0.3}, id="dart"),
        pytest.param({"booster": "gblinear", "max_depth": None, "subsample": None}, id="linear"),
        pytest.param({"num_parallel_tree": 3}, id="forest"),
        pytest.param({"tree_method": "exact"}, id="exact"),
    ],
)
def test_the_model_is_the_same_without_it(settings: dict[str, Any], tmp_path: Path) -> None:
    wanted = {**EVERYTHING, "average_shap": 3}
    bare = boost("binary", **settings)
    with trackside.XGBoostHook(str(tmp_path), save=wanted) as hook:
        watched = boost("binary", hook, **settings)
    assert watched.save_raw("json") == bare.save_raw("json")
    assert opened(tmp_path).steps() == tuple(range(ROUNDS))


def test_quantile_matrix_and_early_stopping(tmp_path: Path) -> None:
    (a, b), (c, d) = data("binary"), data("binary", rows=120, seed=1)
    training = xgboost.QuantileDMatrix(a, b)
    validation = xgboost.QuantileDMatrix(c, d, ref=training)
    with trackside.XGBoostHook(str(tmp_path), save=EVERYTHING) as hook:
        model = xgboost.train(
            {"nthread": 1, "eta": 1.0, **KINDS["binary"]},
            training,
            200,
            evals=[(training, "train"), (validation, "validation")],
            early_stopping_rounds=3,
            verbose_eval=False,
            callbacks=[hook],
        )
    trial = opened(tmp_path)
    assert len(trial.steps()) == model.num_boosted_rounds() < 200
    assert trial.has_ended


@pytest.mark.parametrize("run", ["ftp://host/run", "{file}/run"])
def test_a_run_that_cannot_be_stored_costs_the_training_nothing(
    run: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    bare = boost("binary")
    with caplog.at_level(logging.WARNING), trackside.XGBoostHook(run.format(file=file), save=EVERYTHING) as hook:
        assert boost("binary", hook).save_raw() == bare.save_raw()
    assert any(record.getMessage().startswith("trackside: ") for record in caplog.records)


def test_data_that_does_not_fit_costs_one_collection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wide = xgboost.DMatrix(np.zeros((4, 9)), np.zeros(4))
    with (
        trackside.XGBoostHook(str(tmp_path), save={"metrics": 1, "predictions": 1}, validation_data=wide) as hook,
        caplog.at_level(logging.WARNING),
    ):
        boost("binary", hook)
    assert len([r for r in caplog.records if "saving the collection predictions failed" in r.getMessage()]) == 1
    trial = opened(tmp_path)
    assert trial.steps() == tuple(range(ROUNDS))
    with pytest.raises(TensorNotSavedError):
        value(trial, "predictions", 0)


def test_an_error_of_the_script_passes_through(tmp_path: Path) -> None:
    class Broken(xgboost.callback.TrainingCallback):
        def after_iteration(self, *_: Any) -> bool:
            raise ZeroDivisionError

    with trackside.XGBoostHook(str(tmp_path)) as hook, pytest.raises(ZeroDivisionError):
        boost("binary", hook, Broken())


def test_a_hook_copies_and_pickles_with_its_estimator(tmp_path: Path) -> None:
    with trackside.XGBoostHook(str(tmp_path)) as hook:
        model = _estimator(hook)
        assert clone(model).callbacks == [hook]
        pickle.loads(pickle.dumps(model)).fit(*data("binary", rows=40))  # noqa: S301 - our own
    assert len(opened(tmp_path).steps()) == 1  # losses of round 0: the loaded model captured nothing


def test_leaves_xgboost_as_it_was(tmp_path: Path) -> None:
    container = xgboost.callback.CallbackContainer
    before = container.after_iteration, container.after_training
    with trackside.XGBoostHook(str(tmp_path)) as hook:
        boost("binary", hook, rounds=1)
        assert container.after_iteration is not before[0]
    assert (container.after_iteration, container.after_training) == before
    assert not rounds._listeners


def test_wrong_arguments_raise_at_once() -> None:
    with pytest.raises(ConfigurationError, match="is missing"):
        trackside.XGBoostHook()


SCRIPT = """
import sys
import xgboost
from tests.training_lib.adapters.xgboost.test_adapter import _cv, _estimator, boost
{train}
"""


def environment_of(run: Path, request: CaptureRequest) -> dict[str, str]:
    variables = {"TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": request.to_json()}
    return {**inherited(), **variables, "PYTHONPATH": str(Path(__file__).parents[4])}


def test_needs_no_change_of_the_script(tmp_path: Path) -> None:
    environment = environment_of(tmp_path / "run", METRICS)
    command = [sys.executable, "-c", SCRIPT.format(train="boost('binary')")]
    subprocess.run(command, env=environment, check=True, timeout=HANGS_SECONDS)
    trial = opened(tmp_path / "run")
    assert len(trial.steps()) == ROUNDS
    assert trial.has_ended


@pytest.mark.parametrize(
    ("train", "rounds_seen"),
    [
        pytest.param("_estimator(None)", 12, id="estimator"),
        pytest.param("_cv(None)", 12, id="cv"),
        pytest.param("boost('binary', rounds=5); boost('binary')", 5, id="first-of-two"),
        pytest.param("boost('binary', rounds=0)", 0, id="no-round"),
    ],
)
def test_each_kind_of_training_is_one_run(
    train: str, rounds_seen: int, warm_xgboost: WarmPython, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(train=train))
    run = tmp_path / "run"
    done = warm_xgboost.run(tmp_path / "script.py", env=environment_of(run, METRICS))
    assert done.returncode == 0, done.stderr
    assert ("a further training" in done.stderr) == ("; boost" in train)
    if not rounds_seen:
        assert not run.exists()
        return
    trial = opened(run)
    assert len(trial.steps()) == rounds_seen
    assert trial.has_ended


def test_profiles_the_python_functions_of_the_requested_rounds(warm_xgboost: WarmPython, tmp_path: Path) -> None:
    profiling = ProfilingRequest(operators=Window(1, 2), python=Window(3, 2))
    run, script = tmp_path / "run", tmp_path / "script.py"
    script.write_text(SCRIPT.format(train="boost('binary', rounds=8)"))
    done = warm_xgboost.run(script, env=environment_of(run, replace(METRICS, profiling=profiling)))
    assert done.returncode == 0, done.stderr
    (functions,) = read_details(open_store(RunLocation(str(run)).profiles))  # XGBoost has no operators
    assert (functions.kind, functions.first_step, functions.last_step) == (PYTHON, 3, 4)
    assert any("update" in row.name for row in functions.rows)


@pytest.mark.parametrize(
    ("rule", "settings", "is_found"),
    [
        pytest.param(RuleConfiguration("tree-depth", parameters={"depth": "2"}), {"max_depth": 4}, True, id="deep"),
        pytest.param(RuleConfiguration("tree-depth", parameters={"depth": "4"}), {"max_depth": 3}, False, id="flat"),
        pytest.param(
            RuleConfiguration("feature-importance-overweight", parameters={"nfeatures": "3"}),
            {},
            True,
            id="few-features",
        ),
        pytest.param(
            RuleConfiguration("feature-importance-overweight", parameters={"nfeatures": "1"}),
            {},
            False,
            id="several-features",
        ),
        pytest.param(RuleConfiguration("confusion", parameters={"min_diag": "0.99"}), {}, True, id="confused"),
        pytest.param(
            RuleConfiguration("confusion", parameters={"min_diag": "0.5", "max_off_diag": "0.5"}),
            {},
            False,
            id="not-confused",
        ),
    ],
)
def test_rules_about_boosting_judge_it(
    rule: RuleConfiguration, settings: dict[str, Any], is_found: bool, tmp_path: Path
) -> None:
    with trackside.XGBoostHook(str(tmp_path), save=dict.fromkeys(EVERYTHING, 2)) as hook:
        boost("classes", hook, **settings)
    found = backtest(str(tmp_path), [rule], clock=lambda: 0.0)
    assert bool(found.issues) == is_found
    assert all(verdict.findings or not is_found for verdict in found.issues)


def test_rules_about_networks_do_not_apply(tmp_path: Path) -> None:
    with trackside.XGBoostHook(str(tmp_path), save=EVERYTHING) as hook:
        boost("binary", hook)
    names = ("vanishing-gradient", "weight-update-ratio", "steps-without-gradients", "learning-rate-collapsed")
    found = backtest(str(tmp_path), [RuleConfiguration(name) for name in names], clock=lambda: 0.0)
    assert not found.issues
    assert [verdict.is_not_applicable for verdict in found.verdicts] == [True] * len(names)


@pytest.mark.parametrize(
    ("trained", "evaluated", "weight", "is_found"),
    [
        pytest.param(0.5, 0.02, 1, False, id="the small class was filled up, as by SMOTE"),
        pytest.param(0.02, 0.02, 1, True, id="no class was"),
        pytest.param(0.02, 0.5, 1, True, id="evaluated evenly alone"),
        pytest.param(0.4, 0.4, 1, False, id="hardly uneven"),
        pytest.param(0.02, 0.02, 49, False, id="the small class weighs more"),
    ],
)
def test_classes_are_counted_in_the_set_that_is_trained_on(
    trained: float, evaluated: float, weight: int, is_found: bool, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    train, others = (
        xgboost.DMatrix(random.normal(size=(1000, 3)), (np.arange(1000) < 1000 * share).astype(np.int64))
        for share in (trained, evaluated)
    )
    settings = {"objective": "binary:logistic", "nthread": 1, "max_depth": 2, "scale_pos_weight": weight}
    with trackside.XGBoostHook(str(tmp_path), save=dict.fromkeys(EVERYTHING, 2)) as hook:
        xgboost.train(settings, train, 12, evals=[(others, "validation")], callbacks=[hook], verbose_eval=False)
    found = backtest(str(tmp_path), [RuleConfiguration("class-imbalance")], clock=lambda: 0.0)
    assert bool(found.issues) == is_found


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        pytest.param([0, 1, 1, 0, 1], (2, 3), id="two classes"),
        pytest.param([2, 0, 2], (1, 0, 2), id="a class that is missing"),
        pytest.param([0.5, 1.0], (), id="shares"),
        pytest.param([-1, 1], (), id="signs"),
        pytest.param([0, 500], (), id="counts"),
        pytest.param(None, (), id="none"),
    ],
)
def test_the_classes_of_a_set(labels: list[float] | None, classes: tuple[int, ...]) -> None:
    rows = xgboost.DMatrix(np.zeros((len(labels or "."), 1)), labels)
    assert model_data.classes(rows) == classes


def _flag(answers: Any) -> Any:
    return answers > np.median(answers)


@pytest.mark.parametrize(
    ("column", "labels", "is_found"),
    [
        pytest.param(lambda answers: answers, _flag, False, id="a number that classes are made from"),
        pytest.param(_flag, _flag, True, id="a class"),
        pytest.param(lambda answers: 3 * answers + 1, lambda answers: answers, True, id="a number"),
        pytest.param(lambda answers: np.roll(answers, 1), lambda answers: answers, False, id="of the row before"),
        pytest.param(
            lambda answers: answers + 0.005 * np.roll(answers, 1), lambda answers: answers, False, id="as in a series"
        ),
    ],
)
@pytest.mark.parametrize("matrix", [xgboost.DMatrix, xgboost.QuantileDMatrix])
def test_the_answer_among_the_columns_is_found(
    matrix: Any, column: Callable[[Any], Any], labels: Callable[[Any], Any], is_found: bool, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    inputs, answers = random.normal(size=(700, 4)), random.normal(size=700)
    rows = np.column_stack([inputs, column(answers)])
    is_found = is_found and (matrix is xgboost.DMatrix or labels is _flag)  # a number is rounded to one of 256 there
    train = matrix(rows, labels(answers))
    rule = RuleConfiguration("data-leakage")
    with trackside.XGBoostHook(str(tmp_path), save={"rows": 3}) as hook:
        xgboost.train({"max_depth": 2, "nthread": 1}, train, 9, evals=[(train, "train")], callbacks=[hook])
    found = backtest(str(tmp_path), [rule], clock=lambda: 0.0)
    assert bool(found.issues) is is_found
    assert all("4" in str(verdict.findings[0]) for verdict in found.issues)
    trial = trackside.open_trial(str(tmp_path))
    sizes = {len(trial.value(name, step=0, worker=trial.workers[0])) for name in ("inputs", "inputs/labels")}
    assert sizes == {512}
