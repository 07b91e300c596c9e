"""smdebug's hook for XGBoost: the same script as under the real one, what both read of it, and its arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smdebug.xgboost as smd
import xgboost
from smdebug.exceptions import SMDebugError, SMDebugTypeError, SMDebugValueError
from smdebug.trials import create_trial
from smdebug.xgboost.constants import INCREASING_METRICS_REGEX
from smdebug.xgboost.hook import Hook

from tests.patience import HANGS_SECONDS
from trackside.adapters.xgboost.metrics import RISING_METRICS
from trackside.environment import inherited

HERE = Path(__file__).parent
ORIGINAL: dict[str, Any] = json.loads((HERE / "xgboost_of_the_original.json").read_text("utf-8"))
EVERYTHING = ["hyperparameters", "metrics", "losses", "predictions", "labels", "feature_importance", "average_shap"]
EVERYTHING += ["full_shap", "trees"]
DEFAULT: dict[str, Any] = {}

Peer = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The run of the script with each choice of collections."""
    found = {}
    for name, arguments in (("everything", {"include_collections": EVERYTHING}), ("default", DEFAULT)):
        found[name] = tmp_path_factory.mktemp("xgboost") / name
        train(found[name], arguments)
    return found


def train(folder: Path, arguments: dict[str, Any]) -> None:
    command = [sys.executable, str(HERE / "xgboost_training.py"), str(folder), json.dumps(arguments)]
    subprocess.run(command, check=True, env=inherited(), capture_output=True, timeout=HANGS_SECONDS)


def shown(folder: Path) -> dict[str, list[Any]]:
    """Steps, type and shape of each tensor, as the drop-in reads them."""
    trial = create_trial(str(folder))
    found = {}
    for name in trial.tensor_names():
        steps = trial.tensor(name).steps()
        value = trial.tensor(name).value(steps[-1])
        found[name] = [steps, str(value.dtype), list(value.shape)]
    return found


@pytest.mark.parametrize("kind", ["everything", "default"])
def test_a_run_holds_all_that_the_originals_holds(runs: dict[str, Path], kind: str) -> None:
    ours, theirs = shown(runs[kind]), ORIGINAL[kind]
    assert {name: ours.get(name) for name in theirs} == theirs
    more = set(ours) - set(theirs)  # its collections of contributions leave out names of the letters of "bias"
    assert more == (
        {f"{kind}_shap/{name}" for kind in ("average", "full") for name in "ab"} if kind != "default" else set()
    )


def test_collections_have_the_members_of_the_originals(runs: dict[str, Path]) -> None:
    trial = create_trial(str(runs["everything"]))
    for name, members in ORIGINAL["members"].items():
        assert set(members) <= set(trial.tensor_names(collection=name)), name


@pytest.mark.parametrize("kind", ["everything", "default"])
def test_the_original_reads_the_same(runs: dict[str, Path], kind: str, peer: Peer) -> None:
    ours = shown(runs[kind])
    questions: list[tuple[str, str, dict[str, Any]]] = [(name, "steps", {}) for name in ours]
    answers = peer("answers", {"folder": str(runs[kind]), "questions": questions})["answers"]
    assert dict(zip(ours, answers, strict=True)) == {name: steps for name, (steps, _, _) in ours.items()}
    numbers = [name for name, (_, kind_of_value, _) in ours.items() if not kind_of_value.startswith(("<U", "object"))]
    questions = [(name, "value", {"step_num": 10}) for name in numbers]
    answers = peer("answers", {"folder": str(runs[kind]), "questions": questions})["answers"]
    assert [[answer["dtype"], answer["shape"]] for answer in answers] == [ours[name][1:] for name in numbers]


def test_data_that_the_script_does_not_give_are_not_saved(tmp_path: Path) -> None:
    _boost(Hook(str(tmp_path / "run"), include_collections=["labels", "predictions", "average_shap", "full_shap"]))
    assert set(shown(tmp_path / "run")) == {"train-logloss", "train-auc"}


def test_scalars_of_the_script_come_with_the_next_round(tmp_path: Path) -> None:
    hook = Hook(tmp_path / "run")
    hook.save_scalar("before", 3, timestamp=1e9)
    hook.set_mode(smd.modes.TRAIN)
    _boost(hook, closes=False)
    hook.save_scalar("after", 4)
    hook.close()
    steps = {name: found[0] for name, found in shown(tmp_path / "run").items()}
    assert steps == {"scalar/before": [0], "scalar/after": [12], "train-auc": [0, 10], "train-logloss": [0, 10]}
    assert create_trial(str(tmp_path / "run")).tensor("scalar/before").value(0) == [3]


def test_a_mode_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(SMDebugValueError, match="Modes: TRAIN"):
        Hook(str(tmp_path / "run")).set_mode("train")  # type: ignore[arg-type]  # as a script may


def test_losses_alone_are_metrics_that_fall(tmp_path: Path) -> None:
    hook = Hook(str(tmp_path / "run"), include_collections=["losses"])
    hook.include_collections.remove("metrics")
    _boost(hook)
    assert set(shown(tmp_path / "run")) == {"train-logloss"}


def test_metrics_that_rise_are_the_originals() -> None:
    assert INCREASING_METRICS_REGEX == RISING_METRICS


def test_a_file_configures_it(tmp_path: Path) -> None:
    document = {
        "LocalPath": str(tmp_path / "run"),
        "CollectionConfigurations": [{"CollectionName": "trees", "CollectionParameters": {"save_interval": "3"}}],
    }
    (tmp_path / "hook.json").write_text(json.dumps(document))
    hook = Hook.hook_from_config(str(tmp_path / "hook.json"))
    assert smd.get_hook() is hook
    _boost(hook)
    steps = {name: found[0] for name, found in shown(tmp_path / "run").items()}
    assert steps["train-auc"] == [0, 10]  # an interval of ten unless another is given
    assert steps["trees/Gain"] == [0, 3, 6, 9]


@pytest.mark.filterwarnings("ignore")  # XGBoost deprecates its own reader of libsvm's files
@pytest.mark.parametrize(
    ("content_type", "text"),
    [("csv", "1,0.5,2\n0,1.5,3\n"), ("text/libsvm", "1 0:0.5 1:2\n0 0:1.5 1:3\n")],
)
def test_rows_may_lie_in_a_file(tmp_path: Path, content_type: str, text: str) -> None:
    (tmp_path / "rows").write_text(text)
    hook = Hook(str(tmp_path / "run"), validation_data=(str(tmp_path / "rows"), content_type))
    assert hook.validation_data is not None
    assert hook.validation_data.get_label().tolist() == [1, 0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(7, "must be an xgboost.DMatrix", id="a-number"),
        pytest.param(("rows", "parquet"), "content type is 'parquet'", id="type"),
        pytest.param(("nowhere", "csv"), "nothing lies at 'nowhere'", id="path"),
        pytest.param(("rows",), "must be an xgboost.DMatrix", id="half"),
    ],
)
def test_other_rows_are_refused(tmp_path: Path, given: Any, words: str) -> None:
    with pytest.raises(SMDebugError, match=words):
        Hook(str(tmp_path / "run"), train_data=given)


def test_other_arguments_are_those_of_every_hook(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SMDebugTypeError, match="include_collections"):
        Hook(str(tmp_path / "run"), include_collections=[7])
    hook = Hook(str(tmp_path / "run"), False, None, True)
    assert hook.dry_run
    _boost(hook)
    assert not (tmp_path / "run" / "events").exists()


def test_the_model_is_the_same_as_without(tmp_path: Path) -> None:
    with_hook = _boost(Hook(str(tmp_path / "run"), include_collections=EVERYTHING))
    assert with_hook.save_raw() == _boost(None).save_raw()


def _boost(hook: Hook | None, *, closes: bool = True) -> xgboost.Booster:
    random = np.random.default_rng(0)
    rows = xgboost.DMatrix(random.normal(size=(60, 3)), random.integers(0, 2, 60))
    settings = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "nthread": 1}
    callbacks = [hook] if hook is not None else []
    model = xgboost.train(settings, rows, 12, evals=[(rows, "train")], callbacks=callbacks, verbose_eval=False)
    if hook is not None and closes:
        hook.close()
    return model


def test_another_instance_goes_on_where_the_checkpoints_were_made(
    tmp_path: Path, checkpoints: Path, states: Callable[[], list[dict[str, Any]]]
) -> None:
    """As the original's spot training: the folder of checkpoints comes to the new instance, and no tensors."""
    inputs = np.random.default_rng(0).normal(size=(60, 3))
    rows = xgboost.DMatrix(inputs, inputs[:, 0] > 0)

    class Saves(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if epoch == 3:
                model.save_model(str(checkpoints / "model.ubj"))
            return False

    def trained(folder: str, **further: Any) -> Any:
        hook = smd.Hook(str(tmp_path / folder), save_config=smd.SaveConfig(save_interval=2))
        before = hook.step, hook.init_step, hook.training_run, hook.last_saved_step
        evals = [(rows, "train")]
        xgboost.train({}, rows, 6, evals=evals, callbacks=[hook, Saves()], verbose_eval=False, **further)
        hook.close()
        smd.del_hook()
        return before

    assert trained("first") == (-1, -1, 0, None)
    assert [state["latest-global-step-seen"] for state in states()] == [3]
    assert [state["latest-global-step-saved"] for state in states()] == [2]
    assert trained("second", xgb_model=str(checkpoints / "model.ubj")) == (3, 3, 1, 2)
    assert create_trial(str(tmp_path / "second")).steps() == [4, 6, 8]
