"""scikit-learn, against what its estimators keep, and against the same training without us."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.training_lib.frameworks.captured_script import ROWS, Printed, curve, opened, printed
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Outcome
from trackside.evaluation.backtest import backtest

DATA = """
import json, sys
import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor

def data(rows, seed):
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, 5))
    return inputs, inputs[:, 0] + inputs[:, 1] ** 2 + random.normal(scale=0.3, size=rows)

a, score = data(300, 0)
c, _ = data(50, 1)
b = (score > 0.5).astype(int)
shuffled = np.random.default_rng(0).permutation(b)
def show(model, training=(), validation=()):
    print(json.dumps([list(map(float, training)), list(map(float, validation)), model.predict(c).tobytes().hex()]))
"""
MLP = "model = MLPClassifier(8, max_iter=15, random_state=0{more}).fit(a, {b})\nshow(model, model.loss_curve_)"
PARTIAL = """
model = MLPRegressor(hidden_layer_sizes=8, random_state=0)
for _ in range(9):
    model.partial_fit(a, score)
show(model, model.loss_curve_)
"""
WARM = """
model = MLPClassifier(8, max_iter=6, random_state=0, warm_start=True)
model.fit(a, b).fit(a, b)
show(model, model.loss_curve_)
"""
GROWN = """
model = {kind}(n_estimators=10, random_state=0, warm_start=True).fit(a, {b})
show(model.set_params(n_estimators=16).fit(a, {b}), model.train_score_)
"""
TREES = "model = {kind}(n_estimators=12, random_state=0{more}).fit(a, {b})\nshow(model, model.train_score_)"
MONITORED = """
seen = []
model = GradientBoostingClassifier(n_estimators=12, random_state=0)
model.fit(a, b, None, lambda k, model, variables: seen.append(k) or k == 7)
show(model, model.train_score_)
print(seen)
"""
HISTOGRAMS = """
model = {kind}(max_iter=12, random_state=0, early_stopping=True, tol=0, n_iter_no_change=50{more}).fit(a, {b})
show(model, -model.train_score_, -model.validation_score_)
"""
CASES = [
    pytest.param(MLP.format(more="", b="b"), "log_loss", id="mlp-classifier"),
    pytest.param(MLP.format(more=", solver='sgd'", b="b"), "log_loss", id="mlp-sgd"),
    pytest.param(PARTIAL, "squared_error_loss", id="mlp-partial-fit"),
    pytest.param(WARM, "log_loss", id="mlp-warm-start"),
    pytest.param(TREES.format(kind="GradientBoostingClassifier", more="", b="b"), "log_loss", id="trees"),
    pytest.param(
        TREES.format(kind="GradientBoostingRegressor", more=", subsample=0.5", b="score"),
        "squared_error_loss",
        id="trees-of-samples",
    ),
    pytest.param(GROWN.format(kind="GradientBoostingClassifier", b="b"), "log_loss", id="trees-warm-start"),
    pytest.param(MONITORED, "log_loss", id="trees-with-a-monitor"),
    pytest.param(HISTOGRAMS.format(kind="HistGradientBoostingClassifier", more="", b="b"), "log_loss", id="histograms"),
    pytest.param(
        HISTOGRAMS.format(kind="HistGradientBoostingRegressor", more="", b="score"),
        "squared_error_loss",
        id="histograms-of-numbers",
    ),
]


@pytest.mark.parametrize(("script", "loss"), CASES)
def test_records_what_the_estimator_keeps_and_changes_nothing(
    script: str, loss: str, warm_printed: Printed, tmp_path: Path
) -> None:
    bare, _ = warm_printed(DATA + script)
    captured, logged = warm_printed(DATA + script, tmp_path / "run")
    assert captured == bare
    assert "trackside" not in logged
    training, validation, _ = json.loads(captured.splitlines()[0])
    trial = opened(tmp_path / "run")
    assert trial.steps() == tuple(range(len(training)))
    assert trial.has_ended
    assert curve(trial, loss, "TRAIN") == pytest.approx(training, rel=1e-6)
    assert curve(trial, loss, "EVAL") == pytest.approx(validation, rel=1e-6)


def test_saves_validation_scores_settings_and_importances(warm_printed: Printed, tmp_path: Path) -> None:
    script = """
model = MLPClassifier(8, max_iter=15, random_state=0, early_stopping=True, n_iter_no_change=50).fit(a, b)
print(json.dumps(model.validation_scores_))
"""
    scores = json.loads(warm_printed(DATA + script, tmp_path / "mlp")[0])
    trial = opened(tmp_path / "mlp")
    found = [float(trial.value("validation-score", step=s, worker=trial.workers[0])[0]) for s in trial.steps()]
    assert found == pytest.approx(scores)
    assert trial.value("hyperparameters/max_iter", step=0, worker=trial.workers[0]) == 15

    script = """
model = GradientBoostingClassifier(n_estimators=13, random_state=0).fit(a, b)
print(json.dumps(model.feature_importances_.tolist()))
"""
    shares = json.loads(warm_printed(DATA + script, tmp_path / "trees")[0])
    trial = opened(tmp_path / "trees")
    last = trial.steps()[-1]  # no multiple of the interval of 5: the model is whole there
    for feature, share in ((k, share) for k, share in enumerate(shares) if share):
        found_share = trial.value(f"feature_importance/weight/f{feature}", step=last, worker=trial.workers[0])
        assert found_share == pytest.approx([share])


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("from sklearn.preprocessing import StandardScaler; StandardScaler().fit(a)", id="no-predictions"),
        pytest.param("import torch; SGDClassifier().fit(a, b)", id="a-fit-beside-torch"),
        pytest.param("import torch; MLPClassifier(4, max_iter=3).fit(a, b)", id="beside-torch"),
    ],
)
def test_what_learns_nothing_or_stands_beside_a_trainer_makes_no_run(
    script: str, warm_printed: Printed, tmp_path: Path
) -> None:
    _, logged = warm_printed(DATA + script, tmp_path / "run")
    assert not (tmp_path / "run" / "debug-output").exists()
    assert "trackside" not in logged


@pytest.mark.parametrize(
    ("script", "steps", "is_silent"),
    [
        pytest.param(
            "from sklearn.model_selection import GridSearchCV\n"
            "GridSearchCV(MLPClassifier(4), {'max_iter': [5, 5]}, cv=2).fit(np.r_[a, a], np.r_[b, b])\n"
            "MLPClassifier(4, max_iter=3).fit(a, b)",
            5,
            False,
            id="search",
        ),
        pytest.param(
            "from sklearn.model_selection import RandomizedSearchCV\n"
            "model = MLPClassifier(4, max_iter=3)\n"
            "search = RandomizedSearchCV(model, {'alpha': [0.1, 0.2]}, n_iter=2, cv=2, refit=False).fit(a, b)",
            3,
            False,
            id="search-without-a-last-fit",
        ),
        pytest.param(
            "from sklearn.model_selection import cross_val_score\n"
            "cross_val_score(MLPClassifier(4, max_iter=5), a, b, cv=2)",
            5,
            False,
            id="folds",
        ),
        pytest.param("model = MLPClassifier(4, max_iter=5)\nmodel.fit(a, b).fit(a, b)", 5, False, id="trained-anew"),
        pytest.param("MLPClassifier(4, max_iter=5).fit(a, b)", 5, True, id="one"),
        pytest.param(
            "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\n"
            "make_pipeline(StandardScaler(), MLPClassifier(4, max_iter=5)).fit(a, b)",
            5,
            True,
            id="pipeline",
        ),
    ],
)
def test_the_first_training_has_the_run(
    script: str, steps: int, is_silent: bool, warm_printed: Printed, tmp_path: Path
) -> None:
    _, logged = warm_printed(DATA + script, tmp_path / "run")
    assert len(opened(tmp_path / "run").steps()) == steps
    assert ("a further training" not in logged) == is_silent


@pytest.mark.parametrize(
    ("script", "rule", "is_found"),
    [
        pytest.param(
            "MLPClassifier(8, max_iter=300, learning_rate_init=1e-9, tol=0, n_iter_no_change=999).fit(a, b)",
            "loss-not-decreasing",
            True,
            id="mlp-rate-0",
        ),
        pytest.param(
            "MLPClassifier(8, max_iter=300, tol=0, n_iter_no_change=999).fit(a, b)",
            "loss-not-decreasing",
            False,
            id="mlp-learns",
        ),
        pytest.param(
            "HistGradientBoostingClassifier(max_iter=300, min_samples_leaf=1, learning_rate=0.3, early_stopping=True,"
            " n_iter_no_change=300).fit(a, shuffled)",
            "overfit",
            True,
            id="histograms-of-random-labels",
        ),
        pytest.param(
            "HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=4, learning_rate=0.05, early_stopping=True,"
            " n_iter_no_change=300).fit(a, b)",
            "overfit",
            False,
            id="histograms",
        ),
    ],
)
def test_rules_judge_it(script: str, rule: str, is_found: bool, warm_printed: Printed, tmp_path: Path) -> None:
    warm_printed(DATA + script, tmp_path / "run")
    found = backtest(str(tmp_path / "run"), [RuleConfiguration(rule)], clock=lambda: 0.0)
    assert bool(found.issues) == is_found


def test_rules_about_networks_do_not_apply(warm_printed: Printed, tmp_path: Path) -> None:
    warm_printed(DATA + "MLPClassifier(4, max_iter=20).fit(a, b)", tmp_path / "run")
    names = ("vanishing-gradient", "weight-update-ratio", "steps-without-gradients")
    found = backtest(str(tmp_path / "run"), [RuleConfiguration(name) for name in names], clock=lambda: 0.0)
    assert [verdict.is_not_applicable for verdict in found.verdicts] == [True] * len(names)


FEW = ", max_iter=60, tol=0, n_iter_no_change=99, random_state=0)"
RARE = "np.repeat([0, 1], [285, 15])"
WIDE = """
import pandas, scipy.sparse
frame = pandas.DataFrame(a, columns=list("abcde"))
frame = frame.assign(kind=np.where(a[:, 0] > 0, "x", "y"), day=pandas.Timestamp(2026, 1, 1))
frame = frame.assign(kind=frame.kind.astype("category"), day=frame.day.dt.day)
frame.iloc[::7, 1] = np.nan
text = np.where(b > 0, "yes", "no")
"""


@pytest.mark.parametrize(
    ("script", "rule", "is_found"),
    [
        pytest.param(f"MLPClassifier(8{FEW}.fit(a * 1000 + 5000, b)", "unnormalized-inputs", True, id="unscaled"),
        pytest.param(
            "model = MLPClassifier(8)\nfor k in range(20): model.partial_fit(a * 1000 + 5000, b, classes=[0, 1])",
            "unnormalized-inputs",
            True,
            id="unscaled-by-parts",
        ),
        pytest.param(f"MLPClassifier(8{FEW}.fit(a, b)", "unnormalized-inputs", False, id="scaled"),
        pytest.param(f"MLPClassifier(8{FEW}.fit(a, {RARE})", "class-imbalance", True,
                     id="rare-class"),
        pytest.param(f"MLPClassifier(8{FEW}.fit(a, b)", "class-imbalance", False, id="both-classes"),
        pytest.param(
            "HistGradientBoostingClassifier(early_stopping=True, max_iter=30).fit(a, " + RARE + ")",
            "class-imbalance", True, id="rare-class-of-trees",
        ),
        pytest.param(
            "HistGradientBoostingClassifier(early_stopping=True, max_iter=30, class_weight='balanced')"
            ".fit(a, " + RARE + ")",
            "class-imbalance", False, id="weighted",
        ),
        pytest.param(f"MLPClassifier(8{FEW}.fit(np.c_[a, b], b)", "data-leakage", True, id="answer-among-columns"),
        pytest.param("MLPRegressor(hidden_layer_sizes=8, max_iter=4).fit(np.c_[a, 2 * score], score)", "data-leakage",
                     True, id="number-among-columns"),
        pytest.param(f"MLPClassifier(8{FEW}.fit(a, b)", "data-leakage", False, id="no-answer"),
    ],
)  # fmt: skip
def test_rules_judge_the_rows_that_fit_was_given(
    script: str, rule: str, is_found: bool, warm_printed: Printed, tmp_path: Path
) -> None:
    warm_printed(DATA + script, tmp_path / "run", ROWS)
    found = backtest(str(tmp_path / "run"), [RuleConfiguration(rule)], clock=lambda: 0.0)
    assert bool(found.issues) == is_found
    enough = "HistGradient" not in script  # trees show their rows at the first and the last round: too few for a tick
    assert is_found or found.verdicts[0].outcome is (Outcome.CLEAN if enough else Outcome.NOT_EVALUATED)


WIDE_ROWS = """
wide, new = (np.random.default_rng(seed).normal(size=(600, 8)) for seed in (2, 3))
yes, new_yes = (wide[:, 0] > 0).astype(int), (new[:, 0] > 0).astype(int)
mixed = np.random.default_rng(4).permutation(yes)
"""
LEAK, GUESS, LIMIT = "evaluation-on-training-data", "held-out rows have a score of ", "the limit of 30 steps"


@pytest.mark.parametrize(
    ("script", "notes"),
    [
        pytest.param(f"MLPClassifier(8{FEW}.fit(wide, yes).score(new, new_yes)", set(), id="sound"),
        pytest.param("MLPClassifier(8, max_iter=30, tol=0).fit(wide, yes)", {LIMIT}, id="at-its-limit"),
        pytest.param(
            "GradientBoostingClassifier(n_estimators=9).fit(np.r_[wide, new], np.r_[yes, new_yes]).score(new, new_yes)",
            {LEAK},
            id="trained-on",
        ),
        pytest.param(
            "GradientBoostingClassifier(n_estimators=20).fit(wide, mixed).score(new, new_yes)", {GUESS}, id="mixed"
        ),
    ],
)
def test_what_follows_the_training_is_looked_at(
    script: str, notes: set[str], warm_printed: Printed, tmp_path: Path
) -> None:
    warm_printed(DATA + WIDE_ROWS + script.replace("max_iter=60, tol=0", "max_iter=60, tol=9"), tmp_path / "run")
    found = backtest(str(tmp_path / "run"), [RuleConfiguration(LEAK)], clock=lambda: 0.0)
    assert found.learning is not None
    clauses = [*found.learning.clauses, *found.learning.notes]
    clauses += [issue.rule_id for issue in found.issues]
    assert {note for note in (LEAK, GUESS, LIMIT) if any(each.startswith(note) for each in clauses)} == notes


CLASSES = "MLPClassifier(4, max_iter=3, random_state=0)"
NUMBERS = "MLPRegressor(hidden_layer_sizes=4, max_iter=3, random_state=0)"
HISTOGRAM = "HistGradientBoostingClassifier(early_stopping=True, max_iter=3, random_state=0{more})"


@pytest.mark.parametrize(
    ("script", "rows", "width"),
    [
        pytest.param(f"{CLASSES}.fit(scipy.sparse.coo_matrix(a), text)", "MLPClassifier_input_0", 5, id="sparse"),
        pytest.param(f"{CLASSES}.fit(a.tolist(), b.tolist())", "MLPClassifier_input_0", 5, id="lists"),
        pytest.param(f"{NUMBERS}.fit(a, np.c_[score, score])", "MLPRegressor_input_0", 5, id="two-numbers"),
        pytest.param(f"{CLASSES}.fit(a, np.c_[b, 1 - b])", "MLPClassifier_input_0", 5, id="two-labels"),
        pytest.param(
            f"{CLASSES}.fit(X=a, y=pandas.DataFrame({{'y': text}}))",
            "MLPClassifier_input_0",
            5,
            id="a-frame-of-labels",
        ),
        pytest.param(
            HISTOGRAM.format(more=", categorical_features='from_dtype'") + ".fit(frame, text)",
            "inputs",
            7,
            id="categories-and-gaps",
        ),
        pytest.param(
            "GradientBoostingRegressor(n_estimators=3, random_state=0).fit(a, score, np.ones(len(a)))",
            "inputs",
            5,
            id="weights",
        ),
    ],
)
def test_any_table_that_scikit_learn_takes_is_sampled(
    script: str, rows: str, width: int, warm_printed: Printed, tmp_path: Path
) -> None:
    values = "getattr(model, 'loss_curve_', None) or model.train_score_.tolist()"
    script = f"{DATA}{WIDE}model = {script}\nprint({values})"
    captured, logged = warm_printed(script, tmp_path / "run", ROWS)
    assert captured == warm_printed(script)[0]
    assert "trackside" not in logged
    trial = opened(tmp_path / "run")
    for step in (trial.steps()[0], trial.steps()[-1]):
        sample = trial.value(rows, step=step, worker=trial.workers[0])
        assert sample.shape == (300, width)
        assert np.isfinite(sample).all()
        assert len(trial.value("labels", step=step, worker=trial.workers[0])) == 300


def test_of_a_large_table_a_few_rows_are_saved(warm_printed: Printed, tmp_path: Path) -> None:
    script = DATA + (
        "wide = np.broadcast_to(np.float32(1), (5000, 3000)) + np.arange(3000, dtype=np.float32)\n"
        "MLPRegressor(hidden_layer_sizes=1, max_iter=2, batch_size=5000).fit(wide / 3000, np.arange(5000.0))"
    )
    warm_printed(script, tmp_path / "run", ROWS)
    trial = opened(tmp_path / "run")
    samples = [trial.value("MLPRegressor_input_0", step=step, worker=trial.workers[0]) for step in trial.steps()]
    assert [sample.size <= 1 << 20 for sample in samples] == [True, True]
    answers = [trial.value("labels", step=step, worker=trial.workers[0]) for step in trial.steps()]
    assert [len(one) for one in answers] == [len(one) for one in samples]
    assert set(answers[0].tolist()) != set(answers[1].tolist())


def test_a_loss_above_that_of_guessing_is_no_clean_bill_of_health(warm_printed: Printed, tmp_path: Path) -> None:
    script = f"MLPClassifier(16{FEW}.fit(a * 1000 + 5000, (a[:, 0] > 0).astype(int))"
    warm_printed(DATA + script, tmp_path / "run", ROWS)
    found = backtest(str(tmp_path / "run"), [RuleConfiguration("loss-not-decreasing")], clock=lambda: 0.0)
    assert found.verdicts[0].outcome is Outcome.NOT_EVALUATED
    assert "that of guessing" in found.verdicts[0].message


def test_errors_of_the_script_pass_through(warm_printed: Printed, tmp_path: Path) -> None:
    script = DATA + (
        "\ndef broken(*_): raise ZeroDivisionError\n"
        "try: GradientBoostingClassifier().fit(a, b, monitor=broken)\nexcept ZeroDivisionError: print('raised')\n"
        "try: GradientBoostingClassifier().fit(wrong=1)\nexcept TypeError as error: print(error)\n"
        "try: MLPClassifier().fit(a)\nexcept TypeError as error: print(error)"
    )
    assert warm_printed(script)[0] == warm_printed(script, tmp_path / "run")[0] != ""


@pytest.mark.parametrize("run", ["ftp://host/run", "{file}/run"])
def test_a_run_that_cannot_be_stored_costs_the_training_nothing(run: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    script = DATA + MLP.format(more="", b="b")
    captured, logged = printed(script, run.format(file=tmp_path / "file"))  # type: ignore[arg-type] # an address
    assert captured == printed(script)[0]
    assert "trackside: " in logged


@pytest.mark.parametrize(
    ("rate", "is_found"),
    [pytest.param("", False, id="learns"), pytest.param(', learning_rate="constant", eta0=1e-9', True, id="rate-0")],
)
def test_the_loop_of_partial_fit_in_the_docs(rate: str, is_found: bool, warm_printed: Printed, tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "more-frameworks.md").read_text("utf-8")
    _, _, code = page.partition("```python\n")
    script = code.partition("```")[0].replace("random_state=0", f"random_state=0{rate}")
    warm_printed(script, tmp_path / "run")
    assert len(opened(tmp_path / "run").steps()) >= 600
    found = backtest(str(tmp_path / "run"), [RuleConfiguration("loss-not-decreasing")], clock=lambda: 0.0)
    assert bool(found.issues) == is_found
