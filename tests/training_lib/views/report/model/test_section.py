"""The section on a model, from real trainings of XGBoost for every family of objectives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics

from tests.training_lib.views.report.charts.test_markup import seen
from tests.training_lib.views.report.model.boosted import OBJECTIVES, boost, training_of, validation_of
from trackside.contracts.run_layout import REPORT_KEY, XGBOOST_REPORT_KEY, RunLocation
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import open_trial
from trackside.views.report.at_the_end import store_report
from trackside.views.report.model.labelled import Family, Labelled, LabelledRun, labelled_run
from trackside.views.report.model.section import model_section

ANSWERED = {
    Family.BINARY: {"Confusion matrix", "ROC, precision and recall at every cut, calibration"},
    Family.CLASSES: {"Confusion matrix"},
    Family.NUMBERS: {"Residuals", "Error by the size of the label"},
    Family.RANKING: set[str](),
    Family.SURVIVAL: set[str](),
}
QUESTIONS = (
    "Labels",
    "Metrics over rounds",
    "Importance of features",
    "Confusion matrix",
    "Precision and recall of each class",
    "Recall of each class over rounds",
    "ROC, precision and recall at every cut, calibration",
    "Residuals",
    "Error by the size of the label",
)


def answers(section: str) -> dict[str, str]:
    parts = re.split(r"<h3>(.*?)</h3>", section)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_objective_is_answered_as_far_as_it_has_an_answer(objective: str, tmp_path: Path) -> None:
    boost(tmp_path / "run", objective, rounds=6)
    found = labelled_run(open_trial(str(tmp_path / "run")))
    assert found is not None
    assert found.objective == objective
    assert not found.is_guessed
    section = answers(model_section(found))
    assert tuple(section) == QUESTIONS
    for question in ANSWERED[found.family]:
        assert "Not applicable" not in section[question], question
    for question in {"Confusion matrix", "Residuals"} - ANSWERED[found.family]:
        assert "Not applicable" in section[question] or "not saved together" in section[question]
    assert "income of the household" in section["Importance of features"]
    expected = OBJECTIVES[objective].get("eval_metric")
    assert {*found.metrics} == {*expected} if expected else len(found.metrics) == 1
    assert {of_set for sets in found.metrics.values() for of_set in sets} == {"train", "validation"}


def test_the_numbers_of_the_last_step_are_the_models(tmp_path: Path) -> None:
    model = boost(tmp_path / "run", "binary:logistic", rounds=7)  # the last step is 6, at which both are saved
    rows = validation_of("binary:logistic")
    found = labelled_run(open_trial(str(tmp_path / "run")))
    assert found is not None
    text = seen(str(model_section(found))).text
    scores, labels = model.predict(rows), rows.get_label()
    assert f"Area below the ROC curve {metrics.roc_auc_score(labels, scores):.4f}" in text
    assert f"Accuracy {metrics.accuracy_score(labels, scores > 0.5):.1%}" in text
    matrix = metrics.confusion_matrix(labels, scores > 0.5)
    assert all(f"{count} " in text for count in matrix.reshape(-1))


def test_the_average_of_shap_values_is_that_of_the_model(tmp_path: Path) -> None:
    model = boost(tmp_path / "run", "reg:squarederror", rounds=6, also={"average_shap": 5})
    found = labelled_run(open_trial(str(tmp_path / "run")))
    assert found is not None
    shown = found.importance["average_shap"]
    rows = training_of("reg:squarederror")
    names = list(rows.feature_names or ())
    means = model.predict(rows, pred_contribs=True).mean(axis=0)
    assert {name: last for name, (_, last) in shown.items()} == pytest.approx(
        dict(zip(names, means.tolist(), strict=False)), rel=1e-4
    )
    text = seen(str(model_section(found))).text
    largest = max(zip(names, means, strict=False), key=lambda one: abs(one[1]))[0]
    part = text[text.index("average SHAP: how far") :]
    assert part.index(largest) == min(part.index(name) for name in names)


def test_the_report_lies_at_the_old_key_too(tmp_path: Path) -> None:
    boost(tmp_path / "run", "reg:squarederror", rounds=3)
    run = RunLocation(str(tmp_path / "run"))
    store_report(run, clock=lambda: 1.8e9, stores=LocalStore)
    store = LocalStore(run.rule_output)
    assert store.get(XGBOOST_REPORT_KEY) == store.get(REPORT_KEY)
    assert 'id="model"' in store.get(REPORT_KEY).decode()


def test_a_run_of_another_kind_has_neither_the_section_nor_the_old_key(tmp_path: Path) -> None:
    run = RunLocation(str(tmp_path / "run"))
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {"CrossEntropyLoss_output_0": 2.0})
    end_run(tensors)
    store_report(run, clock=lambda: 1.8e9, stores=LocalStore)
    assert not LocalStore(run.rule_output).exists(XGBOOST_REPORT_KEY)
    assert 'id="model"' not in LocalStore(run.rule_output).get(REPORT_KEY).decode()


def labelled(labels: np.ndarray, predictions: np.ndarray, **others: object) -> LabelledRun:
    given = {"objective": "", "family": Family.CLASSES, "is_guessed": True, "metrics": {}, "importance": {}, **others}
    return LabelledRun(saved=(Labelled(0, labels, predictions), Labelled(9, labels, predictions)), **given)  # type: ignore[arg-type]


def test_a_thousand_classes_and_ten_thousand_features_fit() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 1000, 20_000).astype(np.float64)
    predictions = np.where(random.random(20_000) < 0.7, labels, random.integers(0, 1000, 20_000))
    importance = {"gain": {f"feature {k}": (1e-4, 1e-4 * k) for k in range(10_000)}}
    section = str(model_section(labelled(labels, predictions, importance=importance)))
    assert len(section) < 1_000_000
    assert "Most often mistaken" in section
    assert "8,980 beyond are left out" in section


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_metric_that_is_not_finite_is_named(value: float) -> None:
    steps = np.arange(4)
    sets = {"<i>validation</i>": (steps, np.array([1.0, value, 0.5, 0.4]))}
    section = str(model_section(labelled(np.arange(4.0), np.arange(4.0), metrics={"rmse": sets})))
    assert "is not finite at some rounds" in section
    assert "<i>" not in section


@pytest.mark.parametrize(
    ("values", "is_said"),
    [
        pytest.param([1.0, 0.5, 0.7], True, id="worse-at-the-end"),
        pytest.param([1.0, 0.7, 0.5], False, id="best-at-the-end"),
        pytest.param([1.0, 0.5, 0.505], False, id="as-good-as-the-best"),
    ],
)
def test_only_a_last_round_that_is_worse_is_spoken_of(values: list[float], is_said: bool) -> None:
    sets = {"train": (np.arange(3), np.array(values)), "validation": (np.arange(3), np.array(values))}
    section = str(model_section(labelled(np.arange(4.0), np.arange(4.0), metrics={"rmse": sets})))
    assert ("early_stopping_rounds" in section) is is_said
