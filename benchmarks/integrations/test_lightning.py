"""The callback in the real `Trainer` of Lightning."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from trackside.integrations.lightning import TracksideCallback
from trackside.runs.run_folder import RunState, run_state

MANY_STEPS = 20_000


class Classifier(LightningModule):  # type: ignore[misc]
    def __init__(self, learning_rate: float) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        self.learning_rate = learning_rate

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        inputs, labels = batch
        return torch.nn.functional.cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.learning_rate)


def fit(folder: Path, callback: TracksideCallback, *, max_steps: int, learning_rate: float) -> Trainer:
    torch.manual_seed(0)
    inputs = torch.randn(512, 10)
    loader = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16, shuffle=True)
    trainer = Trainer(
        max_steps=max_steps,
        max_epochs=-1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback, ModelCheckpoint(dirpath=folder / "checkpoints")],
    )
    trainer.fit(Classifier(learning_rate), loader)
    return trainer


@pytest.fixture(autouse=True)
def _work_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_broken_training_ends_by_the_trainers_own_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    callback = TracksideCallback(on_issue="stop")
    trainer = fit(tmp_path, callback, max_steps=MANY_STEPS, learning_rate=1e5)
    assert trainer.should_stop
    assert callback.training.stopped_for is not None
    assert trainer.global_step < MANY_STEPS
    assert list((tmp_path / "checkpoints").glob("*.ckpt"))
    folder = callback.training.folder
    assert folder is not None
    assert run_state(folder) is RunState.STOPPED
    assert callback.training.stopped_for.configuration_name in capsys.readouterr().err


def test_a_healthy_training_is_not_stopped(tmp_path: Path) -> None:
    callback = TracksideCallback(on_issue="stop")
    trainer = fit(tmp_path, callback, max_steps=300, learning_rate=0.05)
    assert trainer.global_step == 300
    assert not callback.training.should_stop
    assert callback.training.folder is not None
    assert run_state(callback.training.folder) is RunState.FINISHED


def test_a_training_that_fails_keeps_its_error(tmp_path: Path) -> None:
    class Failing(Classifier):
        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
            if number == 3:
                raise ZeroDivisionError("mine")
            return super().training_step(batch, number)

    callback = TracksideCallback()
    inputs = torch.randn(128, 10)
    loader = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16)
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        callbacks=[callback],
    )  # fmt: skip
    with pytest.raises(ZeroDivisionError, match="mine"):
        trainer.fit(Failing(0.05), loader)
    assert callback.training.folder is not None
    assert run_state(callback.training.folder) is RunState.FAILED
