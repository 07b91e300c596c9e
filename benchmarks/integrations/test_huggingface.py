"""The callback in the real `Trainer`, with models of transformers: a broken training ends by the trainer's own stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

from trackside.integrations.huggingface import TracksideCallback
from trackside.runs.run_folder import RunState, run_state

MANY_STEPS = 20_000  # minutes: only a stop ends them


def bert() -> Any:
    config = BertConfig(
        vocab_size=50, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
    return BertForSequenceClassification(config)


def gpt() -> Any:
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=64, n_layer=2, n_head=2))


def sentences(*, has_classes: bool) -> list[dict[str, torch.Tensor]]:
    words = torch.randint(1, 50, (256, 12), generator=torch.Generator().manual_seed(0))
    labels = (words[:, 0] > 25).long() if has_classes else words
    return [{"input_ids": row, "labels": label} for row, label in zip(words, labels, strict=True)]


def train(
    model: Any, folder: Path, callback: TracksideCallback, *, max_steps: int, learning_rate: float, **settings: Any
) -> Trainer:
    arguments = TrainingArguments(
        output_dir=str(folder / "out"),
        max_steps=max_steps,
        learning_rate=learning_rate,
        per_device_train_batch_size=16,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_steps=100_000,
        **settings,
    )
    data = sentences(has_classes=isinstance(model, BertForSequenceClassification))
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    return trainer


@pytest.fixture(autouse=True)
def _work_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)


@pytest.mark.parametrize("model", [bert, gpt], ids=["bert", "gpt"])
def test_a_broken_training_ends_by_the_trainers_own_stop(
    model: Callable[[], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = TracksideCallback(on_issue="stop")
    trainer = train(model(), tmp_path, callback, max_steps=MANY_STEPS, learning_rate=10.0)
    stopped = callback.training.stopped_for
    assert stopped is not None
    assert stopped.step <= trainer.state.global_step < MANY_STEPS
    assert (tmp_path / "out" / f"checkpoint-{trainer.state.global_step}" / "trainer_state.json").is_file()
    folder = callback.training.folder
    assert folder is not None
    assert run_state(folder) is RunState.STOPPED
    assert stopped.configuration_name in capsys.readouterr().err


def test_a_stop_removes_no_older_checkpoint(tmp_path: Path) -> None:
    callback = TracksideCallback(on_issue="stop")
    train(bert(), tmp_path, callback, max_steps=MANY_STEPS, learning_rate=10.0, save_total_limit=1)
    assert callback.training.should_stop
    assert not list((tmp_path / "out").glob("checkpoint-*"))


def test_a_warning_stops_nothing(tmp_path: Path) -> None:
    callback = TracksideCallback("runs/broken", on_issue="warn")
    trainer = train(bert(), tmp_path, callback, max_steps=150, learning_rate=10.0)
    assert trainer.state.global_step == 150
    assert callback.training.folder == tmp_path / "runs/broken"
    assert callback.training.issues
    assert run_state(tmp_path / "runs/broken") is RunState.FINISHED


def test_a_healthy_training_trains_as_without_the_callback(tmp_path: Path) -> None:
    plain = bert()
    torch.manual_seed(0)
    watched = bert()
    watched.load_state_dict(plain.state_dict())
    callback = TracksideCallback(on_issue="stop")
    trainer = train(watched, tmp_path / "watched", callback, max_steps=60, learning_rate=1e-3)
    assert trainer.state.global_step == 60
    assert not [group for group in callback.training.issues if group.severity.rank > 0]
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "plain"), max_steps=60, learning_rate=1e-3, per_device_train_batch_size=16,
        report_to=[], use_cpu=True, disable_tqdm=True, save_steps=100_000,
    )  # fmt: skip
    Trainer(model=plain, args=arguments, train_dataset=sentences(has_classes=True)).train()
    for name, value in plain.state_dict().items():
        assert torch.equal(value, watched.state_dict()[name]), name


def test_a_second_training_is_a_run_of_its_own(tmp_path: Path) -> None:
    callback = TracksideCallback()
    train(bert(), tmp_path / "first", callback, max_steps=5, learning_rate=1e-3)
    first = callback.training.folder
    train(bert(), tmp_path / "second", callback, max_steps=5, learning_rate=1e-3)
    assert first is not None
    assert callback.training.folder not in (None, first)
