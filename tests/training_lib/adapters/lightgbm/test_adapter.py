"""LightGBM, against its own log of evaluations, and against the same training without us."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training_lib.frameworks.captured_script import EVERYTHING, ROWS, Printed, curve, opened, printed
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Outcome
from trackside.evaluation.backtest import backtest

DATA = """
import json, sys
import lightgbm, numpy as np

def data(rows, seed, noise=0.3):
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, 5))
    return inputs, (inputs[:, 0] + inputs[:, 1] ** 2 + random.normal(scale=noise, size=rows) > 0.5).astype(int)

(a, b), (c, d) = data(400, 0), data(200, 1)
settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "seed": 3, "bagging_fraction": 0.7,
            "bagging_freq": 1, "deterministic": True}
log = {}
def train(rounds=20, callbacks=(), **more):
    rows = lightgbm.Dataset(a, b)
    return lightgbm.train({**settings, **more}, rows, rounds, valid_sets=[rows, lightgbm.Dataset(c, d, reference=rows)],
                          valid_names=["train", "validation"],
                          callbacks=[lightgbm.record_evaluation(log), *callbacks])
"""
SHOW = "\nprint(json.dumps([log, model.predict(c).tobytes().hex()]))"
PLAIN = DATA + 'model = train(metric=["auc", "binary_error", "binary_logloss"])' + SHOW
DART = DATA + 'model = train(boosting="dart", metric="binary_logloss")' + SHOW
STOPPED = (
    DATA + 'model = train(500, [lightgbm.early_stopping(3, verbose=False)], metric="binary_logloss", eta=1.0)' + SHOW
)
ESTIMATOR = (
    DATA
    + """
model = lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1, subsample=0.7, subsample_freq=1, random_state=1)
model.fit(a, b, eval_set=[(a, b), (c, d)], eval_metric="binary_logloss", callbacks=[lightgbm.record_evaluation(log)])
log = {"training": log["training"], "valid_1": log["valid_1"]}
print(json.dumps([log, model.predict_proba(c).tobytes().hex()]))
"""
)
FROM_ENGINE = PLAIN.replace("lightgbm.train(", "__import__('lightgbm.engine').engine.train(")
CV = (
    DATA
    + """
found = lightgbm.cv(settings, lightgbm.Dataset(a, b), 20, nfold=3, eval_train_metric=True)
log = {s: {"binary_logloss": found[f"{s} binary_logloss-mean"]} for s in ("train", "valid")}
print(json.dumps([log, ""]))
"""
)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(PLAIN, id="train"),
        pytest.param(DART, id="dart"),
        pytest.param(STOPPED, id="early-stopping"),
        pytest.param(ESTIMATOR, id="estimator"),
        pytest.param(FROM_ENGINE, id="engine"),
        pytest.param(CV, id="cv"),
    ],
)
def test_records_what_lightgbm_computes_and_changes_nothing(warm_printed: Printed, script: str, tmp_path: Path) -> None:
    bare, _ = warm_printed(script)
    captured, logged = warm_printed(script, tmp_path / "run")
    assert captured == bare
    assert "trackside" not in logged
    log, _ = json.loads(captured)
    trial = opened(tmp_path / "run")
    (training, validation) = log
    rounds = len(log[training]["binary_logloss"])
    assert trial.steps() == tuple(range(rounds))
    assert trial.has_ended
    for name, mode in ((training, "TRAIN"), (validation, "EVAL")):
        assert curve(trial, "binary_logloss", mode) == pytest.approx(log[name]["binary_logloss"], rel=1e-6)
        for metric, values in log[name].items():
            for step in trial.steps():
                value = trial.value(f"{name}-{metric}", step=step, worker=trial.workers[0])
                assert value == pytest.approx(values[step])


def test_saves_settings_and_importances(tmp_path: Path) -> None:
    show = "\nprint(json.dumps({k: model.feature_importance(k, iteration=16).tolist() for k in ('split', 'gain')}))"
    out, _ = printed(DATA + "model = train()" + show, tmp_path / "run")
    trial = opened(tmp_path / "run")
    worker = trial.workers[0]
    assert trial.value("hyperparameters/bagging_fraction", step=0, worker=worker) == pytest.approx([0.7])
    for kind, own in (("weight", "split"), ("total_gain", "gain")):
        scores = json.loads(out)[own]
        for feature, score in enumerate(scores):
            found = trial.value(f"feature_importance/{kind}/Column_{feature}", step=15, worker=worker)
            assert found == pytest.approx([score / sum(scores)], rel=1e-4)


@pytest.mark.parametrize(
    ("script", "is_silent"),
    [
        pytest.param("model = train(5); train(5)", False, id="two"),
        pytest.param("model = train(5)", True, id="one"),
    ],
)
def test_the_first_training_has_the_run(warm_printed: Printed, script: str, is_silent: bool, tmp_path: Path) -> None:
    _, logged = warm_printed(DATA + script, tmp_path / "run")
    assert len(opened(tmp_path / "run").steps()) == 5
    assert ("a further training" not in logged) == is_silent


def test_a_training_without_evaluated_sets_has_rounds_and_no_losses(warm_printed: Printed, tmp_path: Path) -> None:
    script = DATA + "lightgbm.train(settings, lightgbm.Dataset(a, b), 7)"
    warm_printed(script, tmp_path / "run")
    trial = opened(tmp_path / "run")
    assert len(trial.steps()) in {1, 2, 7}  # of the rounds, those that save something
    assert not trial.tensor_names(collection="losses")


@pytest.mark.parametrize(
    ("more", "rule", "is_found"),
    [
        pytest.param("num_leaves=200, min_data_in_leaf=1, eta=0.3", RuleConfiguration("overfit"), True, id="overfit"),
        pytest.param("num_leaves=4, eta=0.05", RuleConfiguration("overfit"), False, id="no-overfit"),
        pytest.param("eta=1e-7", RuleConfiguration("loss-not-decreasing"), True, id="rate-0"),
        pytest.param("eta=0.05", RuleConfiguration("loss-not-decreasing"), False, id="learns"),
        pytest.param(
            "eta=0.1",
            RuleConfiguration("feature-importance-overweight", parameters={"nfeatures": "5"}),
            True,
            id="few-features",
        ),
        pytest.param(
            "eta=0.1",
            RuleConfiguration("feature-importance-overweight", parameters={"nfeatures": "1"}),
            False,
            id="several-features",
        ),
    ],
)
def test_rules_judge_it(
    warm_printed: Printed, more: str, rule: RuleConfiguration, is_found: bool, tmp_path: Path
) -> None:
    warm_printed(DATA + f"train(200, {more})", tmp_path / "run", EVERYTHING)
    found = backtest(str(tmp_path / "run"), [rule], clock=lambda: 0.0)
    assert bool(found.issues) == is_found


@pytest.mark.parametrize(
    ("first", "steps"),
    [
        pytest.param(30, list(range(30, 40)), id="continued"),
        pytest.param(0, list(range(10)), id="new"),
    ],
)
def test_a_step_is_an_iteration_of_lightgbm(
    warm_printed: Printed, first: int, steps: list[int], tmp_path: Path
) -> None:
    model = tmp_path / "first.txt"
    if first:
        warm_printed(f"{DATA}lightgbm.train(settings, lightgbm.Dataset(a, b), {first}).save_model({str(model)!r})")
    script = (
        f"{DATA}seen, rows = [], lightgbm.Dataset(a, b)\n"
        f"lightgbm.train(settings, rows, 10, valid_sets=[rows], init_model={(str(model) if first else None)!r},"
        " callbacks=[lambda env: seen.append(env.iteration)])\nprint(seen)"
    )
    assert json.loads(warm_printed(script, tmp_path / "run")[0].splitlines()[-1]) == steps
    trial = opened(tmp_path / "run")
    assert list(trial.steps()) == steps
    columns = trial.columns("binary_logloss_output_0", "mean", last_step=10**9, mode="TRAIN")
    assert [step for column in columns for step in column.steps.tolist()] == steps


@pytest.mark.parametrize(
    ("labels", "rounds", "outcome"),
    [
        pytest.param("d", 60, Outcome.CLEAN, id="learns"),
        pytest.param("1 - d", 60, Outcome.ISSUE_FOUND, id="never-better-than-the-first"),
        pytest.param("1 - d", 12, Outcome.NOT_EVALUATED, id="too-few-rounds"),
    ],
)
def test_a_validation_loss_alone_is_judged(
    warm_printed: Printed, labels: str, rounds: int, outcome: Outcome, tmp_path: Path
) -> None:
    script = (
        f"held_back = lightgbm.Dataset(c, {labels})\n"
        f"lightgbm.train(settings, lightgbm.Dataset(a, b), {rounds}, valid_sets=[held_back])"
    )
    warm_printed(DATA + script, tmp_path / "run")
    found = backtest(str(tmp_path / "run"), [RuleConfiguration("loss-not-decreasing")], clock=lambda: 0.0)
    assert [verdict.outcome for verdict in found.verdicts] == [outcome]


@pytest.mark.parametrize(
    ("labels", "more", "is_found"),
    [
        pytest.param("np.arange(len(b)) % 40 == 0", "", True, id="rare-class"),
        pytest.param("np.arange(len(b)) % 40 == 0", "scale_pos_weight=39", False, id="weighted"),
        pytest.param("b", "", False, id="both-classes"),
    ],
)
def test_the_classes_that_are_trained_on_are_counted(
    warm_printed: Printed, labels: str, more: str, is_found: bool, tmp_path: Path
) -> None:
    script = (
        f"rows = lightgbm.Dataset(a, ({labels}).astype(int))\n"
        f"lightgbm.train(dict(settings, {more}), rows, 60, valid_sets=[rows])"
    )
    warm_printed(DATA + script, tmp_path / "run", ROWS)
    found = backtest(str(tmp_path / "run"), [RuleConfiguration("class-imbalance")], clock=lambda: 0.0)
    assert [verdict.outcome is Outcome.ISSUE_FOUND for verdict in found.verdicts] == [is_found]
    assert not any(verdict.is_not_applicable for verdict in found.verdicts)


@pytest.mark.parametrize(
    ("column", "is_found"),
    [
        pytest.param("3 * b + 1", True, id="the-label-by-another-name"),
        pytest.param("b + 0.3 * a[:, 1]", False, id="much-like-the-label"),
        pytest.param("a[:, 1]", False, id="of-its-own"),
    ],
)
def test_a_column_that_is_the_label_is_found(
    warm_printed: Printed, column: str, is_found: bool, tmp_path: Path
) -> None:
    rows = f"lightgbm.Dataset(np.column_stack([a, {column}]), b)"
    warm_printed(f"{DATA}rows = {rows}\nlightgbm.train(settings, rows, 60, valid_sets=[rows])", tmp_path / "run", ROWS)
    found = backtest(str(tmp_path / "run"), [RuleConfiguration("data-leakage")], clock=lambda: 0.0)
    assert bool(found.issues) == is_found


def test_rules_about_networks_do_not_apply(warm_printed: Printed, tmp_path: Path) -> None:
    warm_printed(DATA + "train(20)", tmp_path / "run")
    names = ("vanishing-gradient", "weight-update-ratio", "steps-without-gradients")
    found = backtest(str(tmp_path / "run"), [RuleConfiguration(name) for name in names], clock=lambda: 0.0)
    assert [verdict.is_not_applicable for verdict in found.verdicts] == [True] * len(names)


@pytest.mark.parametrize("run", ["ftp://host/run", "{file}/run"])
def test_a_run_that_cannot_be_stored_costs_the_training_nothing(
    warm_printed: Printed, run: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    bare, _ = warm_printed(PLAIN)
    captured, logged = warm_printed(PLAIN, run.format(file=tmp_path / "file"))  # type: ignore[arg-type] # an address
    assert captured == bare
    assert "trackside: " in logged


def test_errors_of_the_script_pass_through(warm_printed: Printed, tmp_path: Path) -> None:
    script = DATA + (
        "\ndef broken(env): raise ZeroDivisionError\n"
        "try: train(5, [broken])\nexcept ZeroDivisionError: print('raised')\n"
        "try: lightgbm.train(wrong=1)\nexcept TypeError as error: print(error)"
    )
    assert warm_printed(script)[0] == warm_printed(script, tmp_path / "run")[0] != ""
