"""Numbers that a script or a Trainer logs are recorded at the step that they belong to."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import trackside
from trackside.contracts.run.recorded_names import LOGGED
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.records.answers_file import read_answers
from trackside.storage.local import LocalStore
from trackside.trial.trial import Trial

torch.set_num_threads(1)
REWARDS = [0.0, 0.5, 1.0, 0.25]


def steps(count: int = len(REWARDS)) -> Iterator[tuple[int, Any]]:
    """Yield the number of each step, and the function that makes its update."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def update() -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()

    for step in range(count):
        yield step, update


def after_the_update() -> None:
    for step, update in steps():
        update()
        trackside.log(reward=REWARDS[step], unknown=1.0, entropy=None)


def within_the_step() -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for reward in REWARDS:
        model(torch.ones(2, 3)).sum().backward()
        trackside.log(
            {"reward": torch.tensor(reward, requires_grad=True), "words": "many", "rewards/format/mean": [1, 2]}
        )
        optimizer.step()


def by_a_trainer() -> None:
    """Log through what transformers' callbacks are called by."""
    handler = sys.modules["transformers.trainer_callback"].CallbackHandler()  # type: ignore[attr-defined]
    for step, update in steps():
        update()
        assert handler.on_log("args", "state", "control", {"reward": REWARDS[step], "loss": 0.5}) == "control"


class CallbackHandler:
    def on_log(self, args: Any, state: Any, control: Any, logs: Any) -> Any:
        return control


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module in the place of that of transformers, as the library is not installed here."""
    module = ModuleType("transformers.trainer_callback")
    module.CallbackHandler = CallbackHandler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize("training", [after_the_update, within_the_step, by_a_trainer], ids=lambda each: each.__name__)
def test_a_number_is_of_the_step_it_was_logged_in(capturing: Any, transformers: ModuleType, training: Any) -> None:
    before = vars(CallbackHandler)["on_log"]
    with capturing() as run:
        training()
    trial = opened(run)
    (column,) = trial_columns(trial, "reward")
    assert column.steps.tolist() == [0, 1, 2, 3]
    assert column.values.tolist() == REWARDS
    assert trial_columns(trial, "unknown") == trial_columns(trial, "reward/format") == ()
    assert [c.values.tolist() for c in trial_columns(trial, "shown_loss")] == [[0.5] * 4] * (training is by_a_trainer)
    assert vars(CallbackHandler)["on_log"] is before


def opened(run: Any) -> Trial:
    trial = Trial(run, run)
    trial.refresh()
    return trial


def trial_columns(trial: Trial, name: str) -> Any:
    return trial.columns(LOGGED + name, "mean", last_step=99, mode=None)


def test_what_is_logged_before_the_first_step_is_of_it(capturing: Any) -> None:
    with capturing() as run:
        trackside.log(reward=2.0)
        trackside.log(reward=4.0)
        for _, update in steps(1):
            update()
    (column,) = trial_columns(opened(run), "reward")
    assert (column.steps.tolist(), column.values.tolist()) == ([0], [3.0])


def test_a_number_that_is_not_finite_is_counted(capturing: Any) -> None:
    with capturing() as run:
        for step, update in steps():
            update()
            trackside.log(kl=math.nan if step == 2 else 1.0)
    (column,) = opened(run).columns(f"{LOGGED}kl", "nonfinite_count", last_step=99, mode=None)
    assert column.values[column.steps == 2].tolist() == [1.0]


def test_answers_are_of_the_step_they_were_logged_in(capturing: Any) -> None:
    with capturing() as run:
        for step, update in steps():
            update()
            right = float(step > 1)
            trackside.log(
                answers=["a", "b", "c", "d"], rewards=[right, right, 0.0, 0.0], prompts=["p", "p", "q", "q"], kl=0.1
            )
    trial = opened(run)
    found = {
        name: [c.values.tolist() for c in trial_columns(trial, name)]
        for name in ("reward", "solved_groups", "unsolved_groups", "kl")
    }
    assert found == {
        "reward": [[0.0, 0.0, 0.5, 0.5]],
        "solved_groups": [[0.0, 0.0, 0.5, 0.5]],
        "unsolved_groups": [[1.0, 1.0, 0.5, 0.5]],
        "kl": [[0.1] * 4],
    }
    assert not [key for key in run.list("") if "answers" in key], "no text is kept unless the user allows it"


def test_answers_of_a_trainer_are_kept_where_the_user_allows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Trainer:
        num_generations = 2

        def __init__(self) -> None:
            self._logs = {"prompt": ["p", "p"], "completion": ["yes", "no"], "rewards": {"right": [1.0, 0.0]}}

        def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
            assert logs

    module = ModuleType("transformers.trainer")
    module.Trainer = Trainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("TRACKSIDE_SHOW_SAMPLES", "1")
    before = Trainer.log
    environment = replace(CaptureEnvironment.read(), run_uri=str(tmp_path / "run"))
    capture = PyTorchAdapter(environment)
    capture.install()
    try:
        for step, update in steps():
            update()
            Trainer().log({"eval_loss": 1.0} if step else {"reward": 0.5}, 0.0)
    finally:
        capture.uninstall()
    assert Trainer.log is before
    (kept,) = read_answers(LocalStore(tmp_path / "run" / "answers"), "worker_0")
    assert [(one.prompt, one.answer, one.reward) for one in kept.answers] == [("p", "no", 0.0), ("p", "yes", 1.0)]


def test_nothing_happens_without_a_run() -> None:
    class Broken(dict[str, float]):
        def keys(self) -> Any:
            raise RuntimeError

    trackside.log(Broken(reward=1.0))
    trackside.log({"reward": object()}, kl="high")


@pytest.mark.parametrize(
    ("logged", "warning"),
    [
        pytest.param({"rewrd": 1.0}, "'rewrd': no rule knows the name. Did you mean 'reward'?", id="misspelled"),
        pytest.param({"reward": "high"}, "'reward': its value is no number.", id="no-number"),
        pytest.param({"reward": 1.0, "kl": 0.1}, "", id="known"),
        pytest.param({"reward": 1.0, "entropy": None}, "", id="none-of-one"),
        pytest.param({"train/reward": 1.0}, "", id="of-a-tool"),
    ],
)
def test_what_is_left_out_is_named_once(
    logged: dict[str, Any], warning: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with trackside.Hook(str(tmp_path / "run")):
        for _, update in steps():
            update()
            trackside.log(logged)
    found = [record.getMessage() for record in caplog.records if "trackside.log" in record.getMessage()]
    assert found == ([f"trackside: trackside.log does not record {warning}"] if warning else [])
