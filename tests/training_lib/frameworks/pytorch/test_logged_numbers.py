"""Numbers that a script or a Trainer logs are recorded at the step that they belong to."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import trackside
from trackside.contracts.run.recorded_names import LOGGED
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
