"""smdebug.pytorch.Hook: its configuration, what it captures, and that nothing of it ends a training."""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import smdebug.pytorch as smd
import torch
from smdebug.core.hook_configuration import read_configuration
from smdebug.exceptions import SMDebugError, SMDebugRuntimeError, SMDebugTypeError, SMDebugValueError
from torch import nn

from trackside.contracts.run_layout import END_MARKER_KEY
from trackside.records.tfevents import read_records

MODES = smd.modes
LOSS_INPUTS = ("MSELoss_input_0", "MSELoss_input_1")


class Training:
    """A little model under a hook."""

    def __init__(self, hook: Any, *, optimizer: bool = True) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.hook = hook
        self.model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        self.loss = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1) if optimizer else None
        hook.register_module(self.model)
        hook.register_loss(self.loss)

    def forward(self) -> Any:
        return self.loss(self.model(torch.ones(4, 2)), torch.zeros(4, 1))

    def step(self) -> float:
        self.model.zero_grad()
        loss = self.forward()
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()
        return float(loss.detach())

    def end(self) -> Any:
        self.hook.close()
        return smd.create_trial(self.hook.out_dir)


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Iterator[None]:
    yield
    hook = smd.get_hook()
    if hook is not None:
        hook.close()
    smd.del_hook()


Make = Callable[..., Training]


@pytest.fixture
def training(tmp_path: Path) -> Make:
    def make(*, optimizer: bool = True, interval: int = 1, **arguments: Any) -> Training:
        arguments.setdefault("save_config", smd.SaveConfig(save_interval=interval))
        return Training(smd.Hook(str(tmp_path / "run"), **arguments), optimizer=optimizer)

    return make


def steps(trial: Any, name: str, mode: Any = MODES.TRAIN) -> list[int]:
    return list(trial.tensor(name).steps(mode)) if trial.has_tensor(name) else []


# What is captured.


def test_losses_are_the_default(training: Make) -> None:
    subject = training()
    assert subject.hook.has_default_hook_configuration()
    losses = [subject.step() for _ in range(3)]
    trial = subject.end()
    assert trial.tensor_names() == ["MSELoss_output_0"]
    assert [float(trial.tensor("MSELoss_output_0").value(step)) for step in range(3)] == pytest.approx(losses)
    assert Path(subject.hook.out_dir, END_MARKER_KEY).exists()


def test_everything_has_the_originals_names(training: Make) -> None:
    subject = training(save_all=True)
    subject.step()
    found = set(subject.end().tensor_names())
    parameters = {f"Sequential_{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")}
    calls = {f"{module}_{side}_0" for module in ("Sequential", "0", "1", "2") for side in ("input", "output")}
    losses = {"MSELoss_output_0", "MSELoss_input_0", "MSELoss_input_1"}
    assert parameters | {f"gradient/{name}" for name in parameters} | calls | losses <= found


@pytest.mark.parametrize(
    ("is_eval", "has_gradients", "collections", "expected"),
    [
        pytest.param(False, False, None, [3, 4], id="in-training-mode-without-gradients"),
        pytest.param(False, True, None, [3, 4], id="in-training-mode-with-gradients"),
        pytest.param(True, False, None, [3, 4], id="in-eval-mode-without-gradients"),
        pytest.param(True, True, None, [3, 4], id="in-eval-mode-with-gradients"),
        pytest.param(False, False, ["losses"], [], id="losses-alone-in-training-mode"),
        pytest.param(True, False, ["losses"], [], id="losses-alone-in-eval-mode"),
    ],
)
def test_inputs_of_the_loss_in_an_evaluation_that_the_script_names(
    training: Make, is_eval: bool, has_gradients: bool, collections: list[str] | None, expected: list[int]
) -> None:
    """As the real smdebug saves them: its steps of an evaluation follow `set_mode` alone."""
    subject = training(save_all=collections is None, include_collections=collections)
    for _ in range(3):
        subject.step()
    subject.hook.set_mode(MODES.EVAL)
    subject.model.train(not is_eval)
    for _ in range(2):
        with torch.set_grad_enabled(has_gradients):
            subject.forward()
    subject.model.train()
    subject.hook.set_mode(MODES.TRAIN)
    subject.step()
    trial = subject.end()
    global_steps = [(trial.tensor(name).steps() if trial.has_tensor(name) else []) for name in LOSS_INPUTS]
    assert [[step for step in some if step in {3, 4}] for some in global_steps] == [expected, expected]
    assert list(trial.tensor("MSELoss_output_0").steps()) == [0, 1, 2, 3, 4, 5]


def test_without_an_optimizer_a_step_is_a_call(training: Make) -> None:
    subject = training(optimizer=False, include_collections=["weights", "gradients"])
    before = []
    for _ in range(3):
        before.append(subject.model[0].weight.detach().clone())
        subject.step()
        with torch.no_grad():
            subject.model[0].weight.sub_(0.1 * subject.model[0].weight.grad)
    trial = subject.end()
    assert steps(trial, "MSELoss_output_0") == steps(trial, "gradient/Sequential_0.weight") == [0, 1, 2]
    for step, weight in enumerate(before):
        assert trial.tensor("Sequential_0.weight").value(step).tolist() == weight.tolist()


def test_modes_have_steps_of_their_own(training: Make) -> None:
    subject = training()
    for _ in range(2):
        subject.hook.set_mode(MODES.TRAIN)
        for _ in range(3):
            subject.step()
        subject.hook.set_mode(MODES.EVAL)
        assert subject.hook.mode is MODES.EVAL
        with torch.no_grad():
            for _ in range(2):
                subject.forward()
    trial = subject.end()
    assert steps(trial, "MSELoss_output_0", MODES.TRAIN) == list(range(6))
    assert steps(trial, "MSELoss_output_0", MODES.EVAL) == list(range(4))
    assert steps(trial, "MSELoss_output_0", MODES.GLOBAL) == list(range(10))


def test_only_registered_models_are_captured(training: Make) -> None:
    subject = training(include_collections=["gradients"])
    other = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    subject.step()
    other(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    subject.step()
    trial = subject.end()
    assert not [name for name in trial.tensor_names() if "Linear" in name]
    assert steps(trial, "gradient/Sequential_0.weight") == [0, 1]


def test_a_loss_of_the_users_own_has_its_class_for_a_name(tmp_path: Path) -> None:
    class Distance(nn.Module):
        def forward(self, prediction: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return (prediction - label).abs().sum()

    hook = smd.Hook(
        str(tmp_path / "run"), include_regex=["Distance_output"], save_config=smd.SaveConfig(save_interval=1)
    )
    model, distance = nn.Linear(2, 1), Distance()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook.register_module(model)
    hook.register_loss(distance)
    loss = distance(model(torch.ones(1, 2)), torch.zeros(1, 1))
    loss.backward()
    optimizer.step()
    hook.close()
    trial = smd.create_trial(hook.out_dir)
    assert float(trial.tensor("Distance_output_0").value(0)) == pytest.approx(float(loss.detach()))


def test_collections_by_regex_and_by_module(training: Make) -> None:
    subject = training(include_collections=["relu", "first"])
    subject.hook.get_collection("relu").include("^1_output")
    subject.hook.get_collection("first").add_module_tensors(subject.model[0], inputs=True)
    subject.step()
    trial = subject.end()
    assert sorted(trial.collection("relu").tensor_names) == ["1_output_0"]
    assert sorted(trial.collection("first").tensor_names) == ["0_input_0", "0_output_0"]


def test_reductions(training: Make) -> None:
    reductions = smd.ReductionConfig(reductions=["max"], abs_norms=["l2"])
    subject = training(include_collections=["gradients"], reduction_config=reductions)
    subject.step()
    gradient = subject.model[0].weight.grad.clone()
    tensor = subject.end().tensor("gradient/Sequential_0.weight")
    assert float(tensor.reduction_value(0, "max")) == pytest.approx(float(gradient.max()))
    assert float(tensor.reduction_value(0, "l2", abs=True)) == pytest.approx(float(gradient.norm()))
    assert list(tensor.steps()) == [0]


# The user's own values.


def test_a_scalar_after_the_optimizers_step_belongs_to_it(training: Make) -> None:
    subject = training(interval=2)
    for step in range(4):
        subject.step()
        subject.hook.save_scalar("rate", step)
    trial = subject.end()
    assert [float(trial.tensor("scalar/rate").value(step).item()) for step in range(4)] == [0, 1, 2, 3]


def test_a_scalar_before_the_optimizers_step_belongs_to_it(training: Make) -> None:
    subject = training(interval=2)
    for step in range(3):
        subject.forward().backward()
        subject.hook.save_scalar("rate", torch.tensor([step]))
        subject.optimizer.step()
    trial = subject.end()
    assert [float(trial.tensor("scalar/rate").value(step).item()) for step in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("name", [5, 2.5, None], ids=repr)
def test_the_name_of_a_scalar_is_written_as_a_text(training: Make, name: Any) -> None:
    subject = training()
    subject.hook.save_scalar(name, 1.0)
    subject.step()
    assert float(subject.end().tensor(f"scalar/{name}").value(0).item()) == 1.0


def test_a_tensor_at_an_unsaved_step_is_said_once(training: Make, caplog: pytest.LogCaptureFixture) -> None:
    subject = training(interval=2)
    for _ in range(4):
        subject.hook.save_tensor("mine", torch.ones(2), "own")
        subject.step()
    assert steps(subject.end(), "mine") == [0, 2]
    assert caplog.text.count("mine was given at step 1") == 1


def test_a_scalar_has_the_moment_that_the_script_gives(training: Make) -> None:
    subject = training()
    subject.hook.save_scalar("early", 1, timestamp=1234.5)
    subject.step()
    subject.hook.save_scalar("late", 2, timestamp=2345.5)  # to the step that has just ended
    subject.hook.close()
    files = Path(subject.hook.out_dir).rglob("events/*/*.tfevents")
    records = [record for file in files for record in read_records(file.read_bytes(), key=file.name)]
    moments = {record.name: record.wall_time for record in records}
    assert (moments["scalar/early"], moments["scalar/late"]) == (1234.5, 2345.5)
    assert moments["MSELoss_output_0"] > 1e9


def test_a_run_can_be_read_before_its_end(training: Make) -> None:
    """As notebooks do right after the loop. The step that the script is in is there too, and training goes on."""
    subject = training()
    for _ in range(3):
        subject.step()
    trial = smd.create_trial(subject.hook.out_dir)
    assert trial.steps() == [0, 1, 2]
    subject.step()
    assert steps(trial, "MSELoss_output_0") == [0, 1, 2, 3]
    assert steps(subject.end(), "MSELoss_output_0") == [0, 1, 2, 3]


def test_record_tensor_value(training: Make) -> None:
    subject = training()
    loss = subject.forward()
    subject.hook.record_tensor_value("my_loss", loss * 2)
    loss.backward()
    subject.optimizer.step()
    assert float(subject.end().tensor("my_loss_output_0").value(0)) == pytest.approx(2 * float(loss.detach()))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda hook: hook.save_scalar("a", torch.ones(2)), id="scalar-of-two"),
        pytest.param(lambda hook: hook.save_scalar("a", []), id="scalar-of-nothing"),
        pytest.param(lambda hook: hook.save_scalar("a", 1j), id="scalar-of-a-complex-number"),
        pytest.param(lambda hook: hook.save_scalar("a", "text"), id="scalar-of-text"),
        pytest.param(lambda hook: hook.save_scalar("a", None), id="scalar-of-none"),
        pytest.param(lambda hook: hook.save_tensor("a", object()), id="object"),
        pytest.param(lambda hook: hook.save_tensor("a", {"b": 1}), id="dict"),
        pytest.param(lambda hook: hook.save_tensor("a", [[1], [2, 3]]), id="ragged"),
        pytest.param(lambda hook: hook.record_tensor_value("a", 3.0), id="no-tensor"),
        pytest.param(lambda hook: hook.record_trace_events(0.0), id="trace"),
        pytest.param(lambda hook: hook.get_collection("never filled"), id="empty-collection"),
    ],
)
def test_what_is_wrong_in_training_is_said_and_does_not_raise(
    training: Make, wrong: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    subject = training(include_collections=["never filled"])
    subject.step()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            wrong(subject.hook)
            subject.step()
    assert 1 <= len(caplog.records) <= 2, "said once"
    assert steps(subject.end(), "MSELoss_output_0") == [0, 1, 2, 3]


def test_copies_and_pickles(training: Make) -> None:
    subject = training()
    subject.model.hook = subject.hook
    subject.step()
    assert copy.deepcopy(subject.model).hook is subject.hook
    loaded = pickle.loads(pickle.dumps(subject.model))  # noqa: S301 - our own bytes
    loaded.hook.save_scalar("a", 1.0)
    loaded.hook.save_tensor("a", torch.ones(1))
    torch.save(subject.model, io.BytesIO())
    subject.step()
    assert steps(subject.end(), "MSELoss_output_0") == [0, 1]


# What it is told.


def test_a_constructor_says_all_that_is_wrong() -> None:
    with pytest.raises(RuntimeError) as caught:
        smd.Hook(None, save_config=3, reduction_config="mean", include_regex=[1])
    for part in ("out_dir", "SaveConfig", "ReductionConfig", "include_regex"):
        assert part in str(caught.value)
    with pytest.raises(SMDebugValueError, match=r"'\[relu' is no regular expression"):
        smd.Hook("somewhere", include_regex="[relu")
    with pytest.raises(SMDebugTypeError, match="SaveConfig"):
        smd.Hook("somewhere", save_config=3)


def test_a_run_that_has_ended_is_refused(tmp_path: Path) -> None:
    (tmp_path / END_MARKER_KEY).touch()
    with pytest.raises(SMDebugRuntimeError, match="has ended"):
        smd.Hook(str(tmp_path))


def test_wrong_models_and_modes_raise(training: Make) -> None:
    subject = training()
    with pytest.raises(SMDebugError):
        subject.hook.register_module("model")
    with pytest.raises(AssertionError, match="twice"):
        subject.hook.register_module(subject.model[0])
    with pytest.raises(SMDebugValueError, match="Invalid mode"):
        subject.hook.set_mode("TRAIN")


def test_dry_run_saves_no_tensors(training: Make) -> None:
    subject = training(dry_run=True)
    subject.step()
    assert subject.end().tensor_names() == []
    assert Path(subject.hook.out_dir, END_MARKER_KEY).exists()


def test_get_hook(training: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(tmp_path / "hook.json"))
    assert smd.get_hook() is None
    assert smd.get_hook(create_if_not_exists=True) is None
    (tmp_path / "hook.json").write_text(json.dumps({"LocalPath": str(tmp_path / "out")}))
    made = smd.get_hook(create_if_not_exists=True)
    assert made.out_dir == str(tmp_path / "out")
    assert smd.get_hook() is made
    monkeypatch.setenv("USE_SMDEBUG", "False")
    assert smd.get_hook(create_if_not_exists=True) is None


EVERY_KEY = {
    "S3OutputPath": "s3://passed/over",
    "LocalPath": "/out",
    "HookParameters": {
        "save_interval": "100",
        "start_step": 1,
        "end_step": "900",
        "save_steps": "3, 7",
        "train.save_interval": 10,
        "eval.save_interval": "20",
        "predict.end_step": 5,
        "global.save_steps": "1",
        "include_regex": "relu, tanh",
        "save_all": "true",
        "include_workers": "all",
        "export_tensorboard": True,
        "tensorboard_dir": "/board",
        "reductions": "mean,abs_l2_norm",
        "save_raw_tensor": True,
        "save_shape": True,
        "dry_run": "False",
    },
    "CollectionConfigurations": [
        {"CollectionName": "losses", "CollectionParameters": {"save_interval": 2, "eval.save_interval": 3}},
        {"CollectionName": "own", "CollectionParameters": {"include_regex": "conv", "save_histogram": "false"}},
        {"CollectionName": "biases", "CollectionParameters": None},
    ],
}


def test_every_key_of_the_file() -> None:
    told = read_configuration(EVERY_KEY)
    at = told.save_config.get_save_config
    assert at(MODES.TRAIN) == smd.SaveConfigMode(10, 1, 900, [3, 7])
    assert at(MODES.EVAL) == smd.SaveConfigMode(20, 1, 900, [3, 7])
    assert at(MODES.PREDICT) == smd.SaveConfigMode(100, 1, 5, [3, 7])
    assert at(MODES.GLOBAL) == smd.SaveConfigMode(100, 1, 900, [1])
    assert told.reduction_config == smd.ReductionConfig(["mean"], None, None, ["l2"], True, True)
    assert (told.out_dir, told.tensorboard_dir, told.include_workers) == ("/out", "/board", "all")
    assert (told.save_all, told.export_tensorboard, told.dry_run) == (True, True, False)
    assert told.include_regex == ["relu", "tanh"]
    assert told.include_collections == ["losses", "own", "biases"]
    losses, own, biases = told.collections
    # A collection's own value beats what the hook says for one mode.
    assert losses.save_config.get_save_config(MODES.TRAIN) == smd.SaveConfigMode(2, 1, 900, [3, 7])
    assert losses.save_config.get_save_config(MODES.EVAL) == smd.SaveConfigMode(3, 1, 900, [3, 7])
    assert (own.include_regex, own.save_histogram, own.save_config) == (["conv"], False, None)
    assert biases.save_config is None


def test_all_problems_of_a_file_at_once() -> None:
    wrong = {
        "LocalPath": 3,
        "HookParameters": {
            "save_interval": "often",
            "save_all": "perhaps",
            "reductions": "median",
            "include_regex": "(",
        },
        "CollectionConfigurations": [{"CollectionParameters": {}}, {"CollectionName": "a", "CollectionParameters": 1}],
    }
    with pytest.raises(SMDebugValueError) as caught:
        read_configuration(wrong)
    for part in ("LocalPath", "save_interval", "save_all", "median", "'('", "CollectionName", "[1]"):
        assert part in str(caught.value)
    assert "8 problems" not in str(caught.value)


@pytest.mark.parametrize("key", ["dry_run", "save_all", "export_tensorboard"])
@pytest.mark.parametrize(("value", "meant"), [(True, True), ("True", True), ("false", False), (False, False)])
def test_booleans(key: str, value: object, meant: bool) -> None:
    assert getattr(read_configuration({"HookParameters": {key: value}}), key) is meant


def test_a_hook_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hook.json"
    document = copy.deepcopy(EVERY_KEY) | {"LocalPath": str(tmp_path / "run")}
    document["HookParameters"] = {"train.save_interval": 2}
    path.write_text(json.dumps(document))
    subject = Training(smd.Hook.create_from_json_file(str(path)))
    for _ in range(5):
        subject.step()
    trial = subject.end()
    assert steps(trial, "MSELoss_output_0") == [0, 2, 4]
    assert steps(trial, "Sequential_0.bias") == [0, 2, 4]
    assert set(trial.collections()) >= {"losses", "biases"}


def test_a_job_that_trackside_watches_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SageMaker writes one for jobs of its own Debugger only; a script made for it goes on working without."""
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(tmp_path / "none.json"))
    with pytest.raises(FileNotFoundError):
        smd.Hook.create_from_json_file()
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    assert smd.Hook.create_from_json_file().include_collections == smd.Hook(str(tmp_path / "x")).include_collections
    with pytest.raises(FileNotFoundError):  # one that was asked for by name must be there
        smd.Hook.create_from_json_file(str(tmp_path / "none.json"))


def test_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        smd.Hook.create_from_json_file(str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(SMDebugValueError, match="no JSON"):
        smd.Hook.create_from_json_file(str(tmp_path / "bad.json"))
