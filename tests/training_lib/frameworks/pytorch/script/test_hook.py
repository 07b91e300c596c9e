"""trackside.Hook: what the script says, where steps end, and which of two captures is in charge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trackside
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.run_layout import END_MARKER_KEY
from trackside.frameworks import pytorch
from trackside.frameworks.shared import in_charge
from trackside.records.watermark import decode_watermark
from trackside.storage.local import LocalStore

ModesRun = dict[tuple[str, int], dict[str, Any]]
Read = Callable[[Any], ModesRun]


class Training:
    """A loop that a hook may be called in."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
        self.loss = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.gradients: list[Any] = []
        self.weights: list[Any] = []

    def run(self, count: int, *, hook: Any = None, at: str = "") -> None:
        for number in range(count):
            self._print(hook, at, "start")
            self.optimizer.zero_grad()
            self.loss(self.model(torch.full((3, 2), float(number + 1))), torch.zeros(3, 1)).backward()
            self.weights.append(self.model[0].weight.detach().clone())
            self.gradients.append(self.model[0].weight.grad.clone())
            self._print(hook, at, "before the optimizer")
            self.optimizer.step()
            self._print(hook, at, "end")

    def _print(self, hook: Any, at: str, here: str) -> None:
        if at == here:
            hook.step()


def read(folder: Path, read_modes: Read) -> ModesRun:
    return read_modes(LocalStore(str(folder / "debug-output")))


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    call, backward = nn.Module.__call__, torch.autograd.backward
    yield
    assert torch.autograd.backward is backward
    assert nn.Module.__call__ is call


@pytest.mark.parametrize("at", ["", "start", "before the optimizer", "end"])
def test_steps_hold_what_belongs_together(tmp_path: Path, read_modes: Read, at: str) -> None:
    subject = Training()
    with trackside.Hook(str(tmp_path), save={"losses": 1, "weights": 1, "gradients": 2, "outputs": 2}) as hook:
        hook.watch(subject.model, loss=subject.loss)
        subject.run(5, hook=hook, at=at)
    run = read(tmp_path, read_modes)
    assert list(run) == [("TRAIN", step) for step in range(5)]
    for (_, step), tensors in run.items():
        assert "MSELoss_output_0" in tensors
        assert "MSELoss_output_1" not in tensors
        assert tensors["Sequential_0.weight"].tolist() == subject.weights[step].tolist()
        assert ("Sequential_output_0" in tensors) == (step % 2 == 0)
        if step % 2 == 0:
            assert tensors["gradient/Sequential_0.weight"].tolist() == subject.gradients[step].tolist()
    assert (tmp_path / "debug-output" / END_MARKER_KEY).exists()


def test_nothing_need_be_named(tmp_path: Path, read_modes: Read) -> None:
    subject = Training()
    with trackside.Hook(str(tmp_path), save={"losses": 1, "gradients": 1}):
        subject.run(2)
    run = read(tmp_path, read_modes)
    assert [sorted(tensors)[0] for tensors in run.values()] == ["MSELoss_output_0"] * 2
    assert all("gradient/Sequential_2.bias" in tensors for tensors in run.values())


def test_values_of_the_script(tmp_path: Path, read_modes: Read) -> None:
    subject = Training()
    with trackside.Hook(str(tmp_path)) as hook:
        for number in range(3):
            subject.run(1)
            hook.save_scalar("number", number)
            hook.save_tensor("mine", torch.full((2,), float(number)), collection="own")
    run = read(tmp_path, read_modes)
    assert [run["TRAIN", step]["scalar/number"].item() for step in range(3)] == [0, 1, 2]
    assert [run["TRAIN", step]["mine"].tolist() for step in range(3)] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize("at", ["", "end"])
def test_a_watermark_passes_no_step_that_the_script_may_still_add_to(tmp_path: Path, at: str) -> None:
    subject, passed = Training(), []

    def check() -> int:
        """The watermark; what it covers can be read."""
        trial = trackside.open_trial(str(tmp_path))
        marks = LocalStore(str(tmp_path / "watermarks"))
        through = decode_watermark(marks.get("worker_0.json"), key="", worker="worker_0").through
        assert [*trial.new_complete_steps(-1)] == [*range(through + 1)]
        for step in range(through + 1):
            assert trial.value("mine", step=step, worker="worker_0").tolist() == [float(step)] * 2
        return through

    with trackside.Hook(str(tmp_path), save={"losses": 1, "gradients": 2}) as hook:
        for number in range(6):
            subject.run(1, hook=hook, at=at)
            control = hook._capture.control
            assert control is not None
            control.adapter.flush()  # as the writer does by itself; the hook's own hands the last step on
            passed.append(check())
            hook.save_tensor("mine", torch.full((2,), float(number)))
    assert passed == [-1, 0, 1, 2, 3, 4]
    assert check() == 5


def test_modes_that_the_script_names(tmp_path: Path, read_modes: Read) -> None:
    subject = Training()
    with trackside.Hook(str(tmp_path), save={"losses": 1}) as hook:
        hook.watch(subject.model, loss=subject.loss)
        hook.set_mode("predict")  # before any training
        for _ in range(2):
            subject.loss(subject.model(torch.ones(1, 2)), torch.zeros(1, 1))
        hook.set_mode("TRAIN")
        subject.run(2)
    assert list(read(tmp_path, read_modes)) == [("PREDICT", 0), ("PREDICT", 1), ("TRAIN", 0), ("TRAIN", 1)]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        trackside.Hook("", save={"losses": 0, "mine": "often"})  # type: ignore[dict-item]  # what is tested
    assert len(caught.value.problems) == 3
    with pytest.raises(ConfigurationError, match="collection of your own"):
        trackside.Hook("somewhere", save={"mine": 1})


def test_it_takes_the_place_of_the_capture_that_needs_no_change(
    tmp_path: Path, read_modes: Read, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = trackside.contracts.capture_request  # loaded with the adapter
    request = asked.CaptureRequest((asked.CollectionRequest("weights", asked.Schedule(2)),))
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "told"))
    monkeypatch.setenv("TRACKSIDE_CAPTURE_REQUEST", request.to_json())
    pytorch.attach()
    subject = Training()
    with trackside.Hook(str(tmp_path / "own"), save={"losses": 1}) as hook:
        hook.watch(subject.model)
        subject.run(3)
    assert in_charge.attached() is None
    assert not (tmp_path / "own").exists()
    run = read(tmp_path / "told", read_modes)
    assert [sorted(tensors) for tensors in run.values()] == [
        ["MSELoss_output_0", "Sequential_0.weight", "Sequential_2.weight"],
        ["MSELoss_output_0"],
        ["MSELoss_output_0", "Sequential_0.weight", "Sequential_2.weight"],
    ]
    assert caplog.text.count("TRACKSIDE_RUN") == 1


def test_a_run_that_has_begun_goes_on_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "told"))
    pytorch.attach()
    try:
        subject = Training()
        subject.run(1)
        with caplog.at_level(logging.WARNING), trackside.Hook(str(tmp_path / "own")) as hook:
            hook.watch(subject.model)
            subject.run(2)
            hook.save_scalar("passed over", 1)
        assert caplog.text.count("has begun already") == 1
        assert not (tmp_path / "own").exists()
    finally:
        attached = in_charge.attached()
        assert attached is not None
        attached.uninstall()
        in_charge.leave()


def test_the_training_is_the_same_without_it(tmp_path: Path) -> None:
    bare, watched = Training(), Training()
    bare.run(5)
    with trackside.Hook(str(tmp_path), save={"losses": 1, "gradients": 1, "outputs": 1}) as hook:
        hook.watch(watched.model, loss=watched.loss)
        watched.run(5, hook=hook, at="end")
    assert all(torch.equal(a, b) for a, b in zip(bare.model.parameters(), watched.model.parameters(), strict=True))


def test_a_store_that_fails_does_not_end_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    subject = Training()
    with trackside.Hook(str(tmp_path / "file" / "run"), save={"losses": 1}) as hook:
        hook.watch(subject.model, loss=subject.loss)
        subject.run(3, hook=hook, at="start")
        hook.save_scalar("a", 1)


def test_the_number_of_a_step_lasts_until_the_next_call_of_the_model(tmp_path: Path) -> None:
    training, seen = Training(), []
    with trackside.Hook(str(tmp_path / "run"), save={"losses": 1}) as hook:
        hook.watch(training.model)
        assert hook.step_number == -1
        for _ in range(3):
            training.run(1)
            seen.append(hook.step_number)
            training.model(torch.ones(1, 2))
            seen.append(hook.step_number)
    assert seen == [0, 1, 1, 2, 2, 3]


def test_a_layer_that_a_watched_model_gains_later_is_saved_from_then_on(tmp_path: Path) -> None:
    """Issue 41: nothing of it was saved, and nothing said so."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with trackside.Hook(str(tmp_path / "run"), save={"weights": 1}) as hook:
        hook.watch(model)
        for step in range(4):
            if step == 2:
                layer = torch.nn.Linear(2, 2)
                model.append(layer)
                optimizer.add_param_group({"params": layer.parameters()})
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    trial = trackside.open_trial(str(tmp_path / "run"))
    saved = {name: tuple(trial.tensor(name).steps) for name in trial.tensor_names(collection="weights")}
    assert saved == {"Sequential_0.weight": (0, 1, 2, 3), "Sequential_1.weight": (2, 3)}


@pytest.mark.parametrize(
    ("is_registered", "names"),
    [
        pytest.param(True, ["MSELoss_output_0", "MSELoss_output_1"], id="of-each-call"),
        pytest.param(False, ["MSELoss_output_0"], id="of-the-step"),
    ],
)
def test_the_losses_of_accumulated_gradients(
    is_registered: bool, names: list[str], tmp_path: Path, read_modes: Read
) -> None:
    """A loss that the script registers is saved as smdebug saves it: the outputs of the module, one after another."""
    subject = Training()
    expected = []
    with trackside.Hook(str(tmp_path), save={"losses": 1}) as hook:
        hook.watch(subject.model, loss=subject.loss if is_registered else None)
        for number in range(2):
            loss = subject.loss(subject.model(torch.full((3, 2), float(number))), torch.zeros(3, 1))
            expected.append(loss.item())
            (loss / 2).backward()
        subject.optimizer.step()
    (step,) = read(tmp_path, read_modes).values()
    losses = {name: float(step[name].item()) for name in sorted(step) if "Loss" in name}
    assert list(losses) == names
    assert list(losses.values()) == pytest.approx(expected if is_registered else [sum(expected) / 2])
