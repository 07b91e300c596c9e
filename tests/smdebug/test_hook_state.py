"""What smdebug.pytorch.Hook tells of itself, and how far it leaves word that training has come."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import smdebug.pytorch as smd
import torch
from smdebug.core.checkpoint_watch import CheckpointWatch
from smdebug.core.collection_manager import CollectionManager
from smdebug.core.hook import BaseHook, CallbackHook, ScalarCache
from smdebug.core.state_store import StateStore
from torch import nn

TRAIN, EVAL, GLOBAL = smd.modes.TRAIN, smd.modes.EVAL, smd.modes.GLOBAL


class Training:
    """A little model under a hook that saves every second step."""

    def __init__(self, run: Path, **arguments: Any) -> None:
        torch.set_num_threads(1)
        self.hook = smd.Hook(str(run), save_config=smd.SaveConfig(save_interval=2), **arguments)
        self.model, self.loss = nn.Linear(2, 1), nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.hook.register_module(self.model)
        self.hook.register_loss(self.loss)

    def forward(self) -> Any:
        return self.loss(self.model(torch.ones(4, 2)), torch.zeros(4, 1))

    def update(self, loss: Any) -> None:
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def step(self) -> None:
        self.update(self.forward())


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Iterator[None]:
    yield
    if (hook := smd.get_hook()) is not None:
        hook.close()
    smd.del_hook()


def test_a_hook_that_has_not_begun(tmp_path: Path) -> None:
    hook = Training(tmp_path, include_collections=["weights"]).hook
    assert (hook.mode, hook.step, hook.mode_steps) == (TRAIN, -1, {GLOBAL: -1})
    assert (hook.init_step, hook.training_run, hook.last_saved_step) == (-1, 0, None)
    assert (hook.writer, hook.tb_writers, hook.scalar_cache, hook.custom_tensors_to_save) == (None, {}, [], {})
    assert (hook.prepared_collections, hook.exported_collections, hook.first_process) == (False, False, None)
    assert (hook.has_registered_module, hook.has_registered_loss_module) == (True, True)
    assert (hook.worker, hook.chief_worker, hook.save_all_workers) == ("worker_0", "worker_0", False)
    assert (hook.save_all, hook.dry_run, hook.tensorboard_dir, hook.metrics_writer) == (False, False, None, None)
    assert hook.include_collections == ["losses", "weights"]
    assert hook.out_dir == str(tmp_path)
    assert isinstance(hook.state_store, StateStore)
    assert isinstance(hook.collection_manager, CollectionManager)
    assert hook.collection_manager.get_collections() is hook.get_collections()
    assert isinstance(hook, BaseHook)
    assert isinstance(hook, CallbackHook)


def test_a_step_lasts_until_the_next_call_of_the_model(tmp_path: Path) -> None:
    subject = Training(tmp_path)
    hook = subject.hook
    for step in range(3):
        loss = subject.forward()
        assert hook.step == step
        subject.update(loss)
        assert (hook.step, hook.mode_steps) == (step, {TRAIN: step, GLOBAL: step})
    hook.set_mode(EVAL)
    with torch.no_grad():
        for step in range(2):
            subject.forward()
            assert hook.mode is EVAL
            assert hook.mode_steps[EVAL] == step
            assert hook.mode_steps[TRAIN] == 2, "the last one made, not the next"
            assert hook.step == hook.mode_steps[GLOBAL] == 3 + step


def test_collections_may_be_added_to_the_list(tmp_path: Path) -> None:
    subject = Training(tmp_path)
    subject.hook.include_collections.append("weights")
    subject.step()
    subject.hook.close()
    assert "Linear_weight" in smd.create_trial(str(tmp_path)).tensor_names()


def test_the_writer_is_there_on_saved_steps(tmp_path: Path) -> None:
    subject = Training(tmp_path, export_tensorboard=True)
    hook, seen = subject.hook, []
    for _ in range(4):
        loss = subject.forward()
        seen.append((hook.writer is not None, list(hook.tb_writers)))
        if hook.writer is not None:
            assert (hook.writer.step, hook.writer.worker, hook.writer.trial_dir) == (
                hook.step,
                "worker_0",
                str(tmp_path),
            )
            hook.writer.flush()
        subject.update(loss)
    assert seen == [(True, [TRAIN]), (False, []), (True, [TRAIN]), (False, [])]
    assert hook.last_saved_step == 2
    assert hook.exported_collections
    assert hook.first_process
    hook.close()
    assert hook.writer is None


def test_what_the_script_gave_waits_for_the_end_of_the_step(tmp_path: Path) -> None:
    subject = Training(tmp_path)
    hook = subject.hook
    loss = subject.forward()
    hook.save_scalar("rate", 0.5)
    hook.save_tensor("mine", torch.ones(2), "own")
    assert hook.scalar_cache == [ScalarCache("rate", 0.5, TRAIN, sm_metric=False, write_tb=True, write_event=True)]
    value, collections = hook.custom_tensors_to_save["mine"]
    assert (value.tolist(), collections) == ([1.0, 1.0], ["own"])
    subject.update(loss)
    subject.forward()
    assert (hook.scalar_cache, hook.custom_tensors_to_save) == ([], {})


def test_the_hook_of_a_loaded_model_tells_that_it_is_nowhere(tmp_path: Path) -> None:
    subject = Training(tmp_path)
    subject.step()
    loaded = pickle.loads(pickle.dumps(subject.hook))  # noqa: S301 - our own bytes
    loaded.save_scalar("rate", 0.5)
    assert (loaded.step, loaded.writer, loaded.scalar_cache, loaded.last_saved_step) == (-1, None, [], None)
    assert (subject.hook.step, subject.hook.last_saved_step) == (0, 0)


# How far training has come.


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    configuration = tmp_path / "checkpointconfig.json"
    configuration.write_text(json.dumps({"LocalPath": str(folder)}), "utf-8")
    monkeypatch.setenv("CHECKPOINT_CONFIG_FILE_PATH", str(configuration))
    return folder


def states_in(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metadata.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else []


class LooksAlways(CheckpointWatch):
    """As the real one, but not as rarely: a test makes its steps faster than any training."""

    def step_ends(self, state: Any) -> None:
        self.look(state)


@pytest.fixture
def _looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smdebug.core.hook.CheckpointWatch", LooksAlways)


@pytest.mark.usefixtures("_looks_always")
def test_another_instance_goes_on_where_the_checkpoints_were_made(tmp_path: Path, checkpoints: Path) -> None:
    """SageMaker brings the folder of checkpoints to the new instance, and no tensors."""
    first = Training(tmp_path / "first")
    for step in range(6):
        first.step()
        if step == 3:
            (checkpoints / "model.pt").write_bytes(b"weights")
    first.hook.close()
    assert states_in(checkpoints) == [
        {
            "training-run": 0,
            "latest-global-step-saved": 2,
            "latest-global-step-seen": 3,
            "latest-mode-step": {"TRAIN": 3, "GLOBAL": 3},
        }
    ]

    second = Training(tmp_path / "second")
    hook = second.hook
    assert (hook.step, hook.init_step, hook.mode_steps) == (3, 3, {TRAIN: 3, GLOBAL: 3})
    assert (hook.training_run, hook.last_saved_step) == (1, 2)
    for step in range(4, 8):
        second.step()
        assert hook.step == step
        (checkpoints / "model.pt").write_bytes(b"weights" * step)
    hook.close()
    trial = smd.create_trial(str(tmp_path / "second"))
    assert trial.steps(mode=TRAIN) == trial.steps() == [4, 6]
    last = states_in(checkpoints)[-1]
    assert (last["training-run"], last["latest-global-step-seen"], last["latest-global-step-saved"]) == (1, 6, 6)


@pytest.mark.usefixtures("_looks_always")
def test_of_the_run_and_the_checkpoints_the_further_one_counts(tmp_path: Path, checkpoints: Path) -> None:
    """The same instance, started again in the run that was cut off: nothing in it is overwritten."""
    (checkpoints / "model.pt").touch()
    for _ in range(2):
        subject = Training(tmp_path / "run")
        for number in range(4):
            subject.step()
            if number == 1:
                (checkpoints / "model.pt").write_bytes(b"weights" + (checkpoints / "model.pt").read_bytes())
        subject.hook.close()
        (tmp_path / "run" / "training_job_end.ts").unlink()
    # Of the first instance step 2 is the last one stored. The second counts from 3, which it saves as its first step.
    assert [state["latest-global-step-seen"] for state in states_in(checkpoints)] == [1, 4]
    (tmp_path / "run" / "training_job_end.ts").touch()
    assert smd.create_trial(str(tmp_path / "run")).steps() == [0, 2, 3, 4, 6]


def test_without_new_checkpoints_no_state_is_left(tmp_path: Path, checkpoints: Path) -> None:
    (checkpoints / "model.pt").touch()
    subject = Training(tmp_path / "run")
    for _ in range(3):
        subject.step()
    assert states_in(checkpoints) == []


def test_a_configuration_that_cannot_be_read_is_said(
    tmp_path: Path, checkpoints: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "checkpointconfig.json").write_text("{", "utf-8")
    subject = Training(tmp_path / "run")
    subject.step()
    assert subject.hook.state_store is None
    assert (subject.hook.step, subject.hook.training_run) == (0, 0)
    assert "configuration of checkpoints cannot be read" in caplog.text


class Seen(StateStore):
    """Counts the looks, each of which takes a second; what is to be left cannot be stored."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self.looks, self._clock = 0, clock

    def is_checkpoint_updated(self) -> bool:
        self.looks += 1
        self._clock[0] += 1
        return True

    def update_state(self, ts_state: Any) -> None:
        raise PermissionError("read-only")


def test_looking_takes_a_fiftieth_of_the_time_at_most(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    store = Seen(clock)
    watch = CheckpointWatch(store, monotonic=lambda: clock[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            watch.step_ends(dict)
            clock[0] += 1
    assert 15 <= store.looks <= 20
    assert caplog.text.count("read-only") == 1


def test_questions_of_the_original_about_the_open_step(tmp_path: Path) -> None:
    """Issue 41: as smdebug 1.0.34 answers them in the same training."""
    training = Training(tmp_path / "run", include_collections=["weights", "gradients"])
    training.forward()
    hook = training.hook
    asked = [("x", "weights"), ("a.weight", "weights"), ("a.weight", "biases"), ("gradient/a", "gradients")]
    assert [hook.should_save_tensor_or_collection(*each) for each in asked] == [False, True, False, True]
    assert {"weights", "gradients"} <= {collection.name for collection in hook._get_collections_to_save_for_step()}
    assert hook._get_num_workers() == 1
    hook.close()
