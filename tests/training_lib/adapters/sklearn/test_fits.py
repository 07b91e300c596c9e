"""Estimators of scikit-learn without losses: what a whole `fit` shows, and that nothing of the script changes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.training_lib.frameworks.captured_script import ROWS, Printed, opened, printed
from tests.warm_python import WarmPython
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Outcome
from trackside.evaluation.backtest import backtest


@pytest.fixture
def warm_printed(warm_sklearn: WarmPython, tmp_path: Path) -> Printed:
    return partial(printed, request=ROWS, warm=(warm_sklearn, tmp_path))


DATA = """
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import DBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import *
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import *
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

a, new = (np.random.default_rng(seed).normal(size=(600, 8)) for seed in (2, 3))
b, new_b = (a[:, 0] > 0).astype(int), (new[:, 0] > 0).astype(int)
mixed = np.random.default_rng(7).permutation(b)
noise = np.random.default_rng(9).normal(size=600)
rare = np.repeat([0, 1], [580, 20])
wide, wide_new = a * [1e5, 1, 1, 1, 1, 1, 1, 1], new * [1e5, 1, 1, 1, 1, 1, 1, 1]
"""
TRAINED = [
    ("SGDClassifier(random_state=0)", "SGDClassifier_input_0"),
    ("LogisticRegression()", "LogisticRegression_input_0"),
    ("make_pipeline(StandardScaler(), PCA(4), SVC())", "SVC_input_0"),
    ("GridSearchCV(LogisticRegression(), {'C': [0.1, 1]}, cv=2, n_jobs=2)", "LogisticRegression_input_0"),
    ("GridSearchCV(make_pipeline(StandardScaler(), SVC()), {'svc__C': [0.1, 1]}, cv=2)", "SVC_input_0"),
    ("HistGradientBoostingClassifier(max_iter=5)", "inputs"),
    ("MLPClassifier(4, solver='lbfgs', random_state=0)", "MLPClassifier_input_0"),
    ("BaggingClassifier(LogisticRegression(), random_state=0, n_jobs=2)", "inputs"),
    ("StackingClassifier([('a', GaussianNB()), ('b', DecisionTreeClassifier(random_state=0))])", "inputs"),
    ("make_pipeline(SelectFromModel(LogisticRegression()), GaussianNB())", "inputs"),
    ("SVC(kernel='precomputed')", None),
]


def test_each_kind_of_estimator_is_captured_and_nothing_changes(warm_printed: Printed, tmp_path: Path) -> None:
    for number, (estimator, rows) in enumerate(TRAINED):
        x, y = ("a @ a.T", "new @ a.T") if "precomputed" in estimator else ("a", "new")
        script = f"{DATA}\nmodel = {estimator}.fit({x}, b)\nprint(model.predict({y}).tolist(), model.score({y}, new_b))"
        run = tmp_path / str(number)
        captured, logged = warm_printed(script, run)
        alone = script.replace("n_jobs=2", "n_jobs=1")  # processes of joblib cost seconds, and change no answer
        assert captured == warm_printed(alone)[0], estimator
        assert "trackside" not in logged, estimator
        trial = opened(run)
        assert trial.has_ended
        assert trial.steps() == (0, 1, 2), estimator
        labels = [trial.value("labels", step=step, worker="worker_0") for step in trial.steps()]
        assert {len(one) for one in labels} == {512}
        assert not np.array_equal(labels[0], labels[1])
        found = {*trial.tensor_names(collection="model_inputs"), *trial.tensor_names(collection="rows")}
        assert found == ({rows} if rows else set()), estimator


@pytest.mark.parametrize(
    ("script", "has_run", "loss"),
    [
        pytest.param("LogisticRegression().fit(a, b); MLPClassifier(4, max_iter=5).fit(a, b)", True, True,
                     id="network"),
        pytest.param("cross_val_score(SVC(), a, b)\nSVC(C=7).fit(a, b)", True, False, id="after-folds"),
        pytest.param("cross_val_score(SVC(C=7), a, b, cv=3)", True, False, id="folds"),
        pytest.param("KMeans(3, n_init=1).fit(a)\nDBSCAN().fit_predict(a)", True, False, id="clusters"),
        pytest.param("model = SGDClassifier()\nfor k in range(9): model.partial_fit(a, b, [0, 1])", True, False,
                     id="parts"),
        pytest.param("class Own(GaussianNB):\n    def fit(self, X, y): return super().fit(X, y)\nOwn().fit(a, b)", True,
                     False, id="a-class-of-the-script"),
        pytest.param("SVC().fit(a, b)\nimport trackside\nwith trackside.Run('{run}') as run:\n    run.loss(1.0)\n"
                     "    run.step()", True, True, id="run-of-the-script"),
        pytest.param("import os\nSVC().fit(a, b)\nif not os.fork(): raise SystemExit", True, False, id="forked"),
        pytest.param("class Texts(GaussianNB):\n    def fit(self, X, y):\n        self.classes_ = np.unique(y)\n"
                     "        return self\nTexts().fit(['one', 'two'] * 99, [0, 1] * 99)", True, False, id="texts"),
        pytest.param("try: SVC().fit(a, b[:5])\nexcept ValueError: pass", False, False, id="wrong-call"),
    ],
)  # fmt: skip
def test_the_run_is_that_of_the_training(
    script: str, has_run: bool, loss: bool, warm_printed: Printed, tmp_path: Path
) -> None:
    script = script.format(run=tmp_path / "run")
    warm_printed(DATA + script, tmp_path / "run")
    assert (tmp_path / "run" / "debug-output").exists() == has_run
    if has_run:
        trial = opened(tmp_path / "run")
        assert (len(trial.steps()) == 3) != loss
        assert any(each.name for each in trial.model_facts.losses) == loss if trial.model_facts else loss


GUESS, LIMIT, WARNED = "held-out rows have a score of ", "the limit of 2 steps", "its library warned"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        pytest.param("print(SVC().fit(a, b).score(new, new_b))", set(), id="sound"),
        pytest.param("accuracy_score(new_b, RandomForestClassifier(20).fit(a, b).predict(new))", set(),
                     id="sound-metric"),
        pytest.param("SVC().fit(a, mixed).score(new, new_b)", {GUESS}, id="mixed"),
        pytest.param("model = SVC().fit(a, mixed); answers = model.predict(new); accuracy_score(new_b, answers)",
                     {GUESS}, id="mixed-metric"),
        pytest.param("model = LinearRegression().fit(a, mixed); r2_score(new_b, model.predict(new))", set(),
                     id="an-array-that-is-gone-is-no-answer"),
        pytest.param("model = LinearRegression().fit(a, noise); answers = model.predict(new)\nr2_score(new_b, answers)",
                     {GUESS}, id="numbers-metric"),
        pytest.param("LogisticRegression(max_iter=2, solver='saga').fit(a, b)", {LIMIT}, id="at-its-limit"),
        pytest.param("import warnings; warnings.simplefilter('always')\nVotingClassifier([('one', LogisticRegression("
                     "max_iter=2, solver='saga'))]).fit(a, b)", {WARNED}, id="warned-of-a-part"),
        pytest.param("SVC().fit(np.r_[a, new], np.r_[b, new_b]).score(new, new_b)",
                     {"evaluation-on-training-data"}, id="trained-on"),
        pytest.param("DecisionTreeClassifier().fit(a, rare)", {"class-imbalance"}, id="rare"),
        pytest.param("LogisticRegression(class_weight='balanced').fit(a, rare)", set(), id="weighted"),
        pytest.param("DecisionTreeClassifier().fit(np.c_[a, 3 * b], b)", {"data-leakage"}, id="answer-among-columns"),
        pytest.param("KNeighborsClassifier().fit(wide, b).score(wide_new, new_b)", {"unnormalized-inputs"},
                     id="uneven"),
        pytest.param("RandomForestClassifier(9).fit(wide, b).score(wide_new, new_b)", set(), id="uneven-trees"),
        pytest.param("KNeighborsClassifier().fit(a * 50 + 128, b).score(new * 50 + 128, new_b)", set(), id="pixels"),
        pytest.param("LogisticRegression(max_iter=2, solver='saga').fit(a * 50 + 128, b)",
                     {"unnormalized-inputs", LIMIT}, id="pixels-that-harm"),
        pytest.param("import numpy\nfrom sklearn.ensemble import HistGradientBoostingClassifier as H\n"
                     "H(max_iter=3).fit(np.where(a > 1, np.nan, a), b)", set(), id="gaps"),
    ],
)  # fmt: skip
def test_rules_judge_a_fit(script: str, found: set[str], warm_printed: Printed, tmp_path: Path) -> None:
    names = ("class-imbalance", "data-leakage", "evaluation-on-training-data", "unnormalized-inputs")
    warm_printed(DATA + script, tmp_path / "run")
    result = backtest(str(tmp_path / "run"), [RuleConfiguration(name) for name in names], clock=lambda: 0.0)
    assert result.learning is not None
    clauses = [*result.learning.clauses, *result.learning.notes]
    seen = {text for text in (GUESS, LIMIT, WARNED) if any(clause.startswith(text) for clause in clauses)}
    assert seen | {issue.rule_id for issue in result.issues} == found
    silent = [verdict for verdict in result.verdicts if verdict.rule_id not in found]
    assert {verdict.outcome for verdict in silent if not verdict.is_not_applicable} <= {
        Outcome.CLEAN,
        Outcome.NOT_EVALUATED,
    }
    assert any(verdict.outcome is Outcome.CLEAN for verdict in silent)
