"""XGBoost: its own interfaces, and libraries that train it."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "boosting",
    (
        "mapie", "shap", "boruta", "xgbse", "skforecast", "imbalanced-learn", "optuna", "mlforecast", "flaml",
        "scikit-learn",
    ),
    imports=("xgboost", "sklearn.datasets", "pandas", "mapie.regression", "shap", "boruta", "imblearn", "optuna"),
    framework="xgboost",
)  # fmt: skip
DIGITS, CANCER, DIABETES = "sklearn's digits", "sklearn's breast cancer", "sklearn's diabetes"
SERIES = "made: a yearly season with a trend and noise"


def _halves(name: str, seed: int) -> Any:
    import sklearn.datasets
    from sklearn.model_selection import train_test_split

    return train_test_split(*getattr(sklearn.datasets, f"load_{name}")(return_X_y=True), random_state=seed)


def _series(seed: int, count: int = 240) -> Any:
    import numpy as np
    import pandas as pd

    months = np.arange(count)
    values = 100 + 0.3 * months + 12 * np.sin(months * np.pi / 6) + np.random.default_rng(seed).normal(0, 3, count)
    return pd.Series(values, index=pd.date_range("2004-01-01", periods=count, freq="MS"), name="sales")


@FAMILY.program("xgboost", data=CANCER)
def xgboost_train(seed: int) -> None:
    """`xgboost.train` with two evaluated sets and early stopping."""
    import xgboost

    seen, held_back, answers, held_answers = _halves("breast_cancer", seed)
    sets = xgboost.DMatrix(seen, answers), xgboost.DMatrix(held_back, held_answers)
    xgboost.train(
        {"objective": "binary:logistic", "seed": seed}, sets[0], 200, evals=[(sets[0], "train"), (sets[1], "test")],
        early_stopping_rounds=20, verbose_eval=50,
    )  # fmt: skip


@FAMILY.program("xgboost", data=DIGITS)
def xgboost_classifier(seed: int) -> None:
    """`XGBClassifier` of ten classes with an evaluated set."""
    from xgboost import XGBClassifier

    seen, held_back, answers, held_answers = _halves("digits", seed)
    model = XGBClassifier(n_estimators=60, learning_rate=0.2, max_depth=4, subsample=0.8, random_state=seed)
    model.fit(seen, answers, eval_set=[(seen, answers), (held_back, held_answers)], verbose=20)


@FAMILY.program("xgboost", data=DIABETES)
def xgboost_regressor(seed: int) -> None:
    """`XGBRegressor` that stops early by its validation set, and is not evaluated on its own rows."""
    from xgboost import XGBRegressor

    seen, held_back, answers, held_answers = _halves("diabetes", seed)
    model = XGBRegressor(n_estimators=500, learning_rate=0.05, max_depth=3, early_stopping_rounds=20, random_state=seed)
    model.fit(seen, answers, eval_set=[(held_back, held_answers)], verbose=100)


@FAMILY.program("xgboost", data=CANCER)
def xgboost_cv(seed: int) -> None:
    """`xgboost.cv` with five folds."""
    import xgboost

    seen, _, answers, _ = _halves("breast_cancer", seed)
    settings = {"objective": "binary:logistic", "eta": 0.1, "max_depth": 3}
    xgboost.cv(settings, xgboost.DMatrix(seen, answers), 100, nfold=5, stratified=True, seed=seed)


@FAMILY.program("xgboost", data="made: queries with graded documents")
def xgboost_ranker(seed: int) -> None:
    """`XGBRanker` by pairs, with its metric that rises."""
    import numpy as np
    from xgboost import XGBRanker

    random = np.random.default_rng(seed)
    inputs, queries = random.normal(size=(1200, 12)), np.repeat(np.arange(60), 20)
    grades = np.clip(np.round(inputs[:, 0] + inputs[:, 1] + random.normal(0, 0.5, 1200) + 1), 0, 4).astype(int)
    model = XGBRanker(n_estimators=100, learning_rate=0.1, random_state=seed)
    parts = slice(0, 900), slice(900, None)
    model.fit(
        inputs[parts[0]], grades[parts[0]], qid=queries[parts[0]], verbose=50,
        eval_set=[(inputs[part], grades[part]) for part in parts], eval_qid=[queries[part] for part in parts],
    )  # fmt: skip


@FAMILY.program("xgboost", data=DIABETES)
def xgboost_own_objective(seed: int) -> None:
    """The squared logarithmic error of XGBoost's guide, as objective and metric of its own."""
    import numpy as np
    import xgboost

    def objective(predictions: Any, data: Any) -> tuple[Any, Any]:
        answers, predictions = data.get_label(), np.maximum(predictions, -1 + 1e-6)
        difference = np.log1p(predictions) - np.log1p(answers)
        return difference / (predictions + 1), (1 - difference) / np.power(predictions + 1, 2)

    def metric(predictions: Any, data: Any) -> tuple[str, float]:
        answers, predictions = data.get_label(), np.maximum(predictions, -1 + 1e-6)
        return "PyRMSLE", float(np.sqrt(np.mean((np.log1p(answers) - np.log1p(predictions)) ** 2)))

    seen, held_back, answers, held_answers = _halves("diabetes", seed)
    sets = xgboost.DMatrix(seen, answers / 100), xgboost.DMatrix(held_back, held_answers / 100)
    xgboost.train(
        {"tree_method": "hist", "seed": seed, "disable_default_eval_metric": 1}, sets[0], 40, obj=objective,
        custom_metric=metric, evals=[(sets[0], "train"), (sets[1], "test")], verbose_eval=20,
    )  # fmt: skip


@FAMILY.program("mapie", data=DIABETES)
def mapie_intervals(seed: int) -> None:
    """MAPIE's intervals by cross-validation around an `XGBRegressor`."""
    from mapie.regression import CrossConformalRegressor
    from xgboost import XGBRegressor

    seen, _, answers, _ = _halves("diabetes", seed)
    model = XGBRegressor(n_estimators=100, max_depth=3, learning_rate=0.1, random_state=seed)
    CrossConformalRegressor(estimator=model, confidence_level=0.9, cv=3).fit_conformalize(seen, answers)


@FAMILY.program("shap", data=CANCER)
def shap_explainer(seed: int) -> None:
    """A classifier that shap explains afterwards."""
    import shap
    from xgboost import XGBClassifier

    seen, held_back, answers, held_answers = _halves("breast_cancer", seed)
    model = XGBClassifier(n_estimators=100, max_depth=3, learning_rate=0.1, random_state=seed)
    model.fit(seen, answers, eval_set=[(seen, answers), (held_back, held_answers)], verbose=False)
    print(shap.TreeExplainer(model).shap_values(held_back).shape)


@FAMILY.program("boruta", data=CANCER)
def boruta_features(seed: int) -> None:
    """Boruta chooses features by the importances of many small models."""
    from boruta import BorutaPy
    from xgboost import XGBClassifier

    seen, _, answers, _ = _halves("breast_cancer", seed)
    model = XGBClassifier(n_estimators=50, max_depth=3, random_state=seed)
    BorutaPy(model, n_estimators=50, max_iter=10, random_state=seed).fit(seen, answers)


@FAMILY.program("xgbse", data="made: exponential survival times")
def xgbse_survival(seed: int) -> None:
    """xgbse's accelerated failure times, with a validation set."""
    import numpy as np
    import pandas as pd
    from xgbse import XGBSEKaplanNeighbors
    from xgbse.converters import convert_to_structured

    random = np.random.default_rng(seed)
    inputs = pd.DataFrame(random.normal(size=(900, 6)), columns=[f"c{k}" for k in range(6)])
    times = random.exponential(np.exp(inputs["c0"] - 0.5 * inputs["c1"])) + 0.01
    ends = random.exponential(3.0, 900) + 0.01
    answers = convert_to_structured(pd.Series(np.minimum(times, ends)), pd.Series(times <= ends))
    XGBSEKaplanNeighbors(n_neighbors=30).fit(
        inputs[:600], answers[:600], num_boost_round=200, validation_data=(inputs[600:], answers[600:]),
        early_stopping_rounds=10, verbose_eval=50,
    )  # fmt: skip


@FAMILY.program("skforecast", data=SERIES)
def skforecast_recursive(seed: int) -> None:
    """skforecast forecasts a series by its last twelve values."""
    from skforecast.recursive import ForecasterRecursive
    from xgboost import XGBRegressor

    forecaster = ForecasterRecursive(XGBRegressor(n_estimators=100, max_depth=3, random_state=seed), lags=12)
    forecaster.fit(y=_series(seed))
    print(forecaster.predict(steps=3))


@FAMILY.program("imbalanced-learn", data="made: two classes, one in twenty")
def imbalanced_learn_smote(seed: int) -> None:
    """A pipeline that fills up the small class by SMOTE before the classifier."""
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline
    from sklearn.datasets import make_classification
    from xgboost import XGBClassifier

    inputs, answers = make_classification(2000, 12, n_informative=6, weights=[0.95], random_state=seed)
    model = XGBClassifier(n_estimators=80, max_depth=3, learning_rate=0.1, random_state=seed)
    make_pipeline(SMOTE(random_state=seed), model).fit(
        inputs[:1500], answers[:1500], xgbclassifier__eval_set=[(inputs[1500:], answers[1500:])],
        xgbclassifier__verbose=40,
    )  # fmt: skip


@FAMILY.program("optuna", data=CANCER)
def optuna_study(seed: int) -> None:
    """Ten trials of a study; the run holds the first."""
    import optuna
    import xgboost

    seen, held_back, answers, held_answers = _halves("breast_cancer", seed)
    sets = xgboost.DMatrix(seen, answers), xgboost.DMatrix(held_back, held_answers)

    def objective(trial: Any) -> float:
        settings = {
            "objective": "binary:logistic",
            "eta": trial.suggest_float("eta", 0.02, 0.3, log=True),
            "max_depth": trial.suggest_int("max_depth", 2, 6),
        }
        log: dict[str, Any] = {}
        evaluated = [(sets[0], "train"), (sets[1], "test")]
        xgboost.train(settings, sets[0], 80, evals=evaluated, evals_result=log, verbose_eval=False)
        return float(log["test"]["logloss"][-1])

    optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed)).optimize(objective, n_trials=10)


@FAMILY.program("mlforecast", data=SERIES)
def mlforecast_lags(seed: int) -> None:
    """mlforecast forecasts four series by lags and the month."""
    import pandas as pd
    from mlforecast import MLForecast
    from xgboost import XGBRegressor

    series = [_series(10 * seed + k) for k in range(4)]
    table = pd.concat([pd.DataFrame({"unique_id": str(k), "ds": s.index, "y": s.values}) for k, s in enumerate(series)])
    model = XGBRegressor(n_estimators=80, max_depth=3, random_state=seed)
    MLForecast(models=[model], freq="MS", lags=[1, 6, 12], date_features=["month"]).fit(table)


@FAMILY.program("flaml", data=DIGITS)
def flaml_automl(seed: int) -> None:
    """FLAML looks for settings of XGBoost, ten models at most."""
    from flaml import AutoML

    seen, _, answers, _ = _halves("digits", seed)
    AutoML().fit(
        seen, answers, task="classification", estimator_list=["xgboost"], max_iter=10, time_budget=60, seed=seed,
        n_jobs=1, verbose=0,
    )  # fmt: skip
