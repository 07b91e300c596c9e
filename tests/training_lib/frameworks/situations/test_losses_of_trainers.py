"""The loss of a step is the one that the framework itself logs, and the steps are its own, with 1, 4 and 8 parts.

Each script trains with several numbers of parts, one training after the other in one process, and prints one JSON
line: the losses that the framework logged, a list for each training. Lightning logs a mean over an epoch, so an epoch
of it is one step here; each of its trainings has a process of its own. Keras counts each batch as a step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trackside

CLOSE = 1e-4
STEPS = 4
SAVED = {"losses": 2}  # the saved losses, at every other step, are the recorded ones, too

TRANSFORMERS = """
import json
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

logged = []

class Watching(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        logged.extend([logs["loss"]] if "loss" in logs else [])

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 16)

    def forward(self, input_ids, labels):
        scores = self.layer(input_ids.float())
        return {"loss": torch.nn.functional.cross_entropy(scores, labels[:, -1]), "logits": scores}

def row(number):
    ids = torch.randint(0, 16, (12,))
    return {"input_ids": ids, "labels": torch.where(torch.arange(12) < number % 9, -100, ids)}

def train(parts):
    torch.manual_seed(0)
    small = GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=12)
    model = MODEL
    arguments = TrainingArguments(
        output_dir="out", max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=parts, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, seed=1, learning_rate=0.05,
    )
    rows = [row(number) for number in range(64)]
    Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Watching()]).train()
"""

TRL = """
import json
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

logged = []

class Watching(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        logged.extend([logs["loss"]] if "loss" in logs else [])

def train(parts):
    torch.manual_seed(0)
    words = "abcdefghijklmn"
    known = Tokenizer(models.WordLevel({w: k for k, w in enumerate(["<pad>", "<eos>", *words])}, unk_token="<pad>"))
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens = PreTrainedTokenizerFast(tokenizer_object=known, pad_token="<pad>", eos_token="<eos>")
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=16))
    texts = [{"text": " ".join(words[(k * j) % 14] for j in range(1, 4 + k % 9))} for k in range(64)]
    arguments = SFTConfig(
        output_dir="out", max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=parts, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, seed=1, learning_rate=0.05, bf16=False,
        gradient_checkpointing=False,
    )
    SFTTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_list(texts), processing_class=tokens,
        callbacks=[Watching()],
    ).train()
"""

LIGHTNING = """
import json, logging, warnings
import torch
from torch import nn

warnings.simplefilter("ignore")
import lightning

logged = []

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))

    def training_step(self, batch, number):
        values, labels = batch
        loss = nn.functional.cross_entropy(self.layers(values), labels)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)

class Watching(lightning.Callback):
    def on_train_epoch_end(self, trainer, module):
        logged.append(trainer.callback_metrics["loss"].item())

def train(parts):
    torch.manual_seed(0)
    rows = [(torch.randn(6), torch.randint(0, 3, ()).item()) for _ in range(64)]
    loader = torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True)
    lightning.Trainer(
        max_epochs=4, limit_train_batches=parts, accumulate_grad_batches=parts, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[Watching()],
    ).fit(Net(), loader)
"""

ACCELERATE = """
import json
import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
from torch import nn

logged = []

class Notes(GeneralTracker):
    name, requires_logging_directory, tracker = "notes", False, logged

    def store_init_configuration(self, values):
        pass

    def log(self, values, step=None, **_):
        logged.append(values["loss"])

def train(parts):
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=parts, log_with=Notes())
    accelerator.init_trackers("run")
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    rows = [(torch.randn(6), torch.randint(0, 3, ()).item()) for _ in range(4 * parts * 4)]
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    total = 0.0
    for values, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(values), labels)
            total += loss.item()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            accelerator.log({"loss": total / parts})
            total = 0.0
"""

KERAS = """
import json, os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

logged = []

class Watching(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        self.model.reset_metrics()  # else the loss is a mean over the epoch

    def on_train_batch_end(self, batch, logs=None):
        logged.append(float(logs["loss"]))

def train(parts):
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([layers.Input((6,)), layers.Dense(5, activation="relu"), layers.Dense(3)])
    optimizer = keras.optimizers.Adam(0.05, gradient_accumulation_steps=parts if parts > 1 else None)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    draws = np.random.default_rng(0)
    rows, labels = draws.normal(size=(4 * parts * 4, 6)).astype("float32"), draws.integers(0, 3, 4 * parts * 4)
    model.fit(rows, labels, batch_size=4, epochs=1, verbose=0, callbacks=[Watching()], shuffle=False)
    assert len(logged) == int(optimizer.iterations) * parts
"""

PARTS = (1, 4, 8)
EACH = """
trainings = []
for parts in PARTS:
    logged.clear()
    train(parts)
    trainings.append(logged[:])
print(json.dumps(trainings))
"""


@pytest.fixture
def trained(script: Any, trainers_python: Path) -> Any:
    """Runs a script in the trainers' environment, captured. Returns what it printed."""

    def run_it(source: str, run: Path) -> str:
        done = script(source, run=run, intervals=SAVED, python=trainers_python, HF_HUB_OFFLINE="1")
        assert done.returncode == 0, done.stderr[-2000:]
        printed: str = done.stdout
        return printed

    return run_it


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        pytest.param(TRANSFORMERS.replace("MODEL", "GPT2LMHeadModel(small)"), PARTS, id="transformers"),
        pytest.param(TRANSFORMERS.replace("MODEL", "Net()"), (4,), id="own-model"),
        pytest.param(TRL, PARTS, id="trl"),
        *(pytest.param(LIGHTNING, (parts,), id=f"lightning-{parts}") for parts in PARTS),
        pytest.param(ACCELERATE, PARTS, id="accelerate"),
        pytest.param(KERAS, PARTS, id="keras"),
    ],
)
def test_is_the_loss_that_the_framework_logs(source: str, parts: tuple[int, ...], trained: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trainings = json.loads(trained(source + EACH.replace("PARTS", repr(parts)), run).splitlines()[-1])
    assert [len(losses) for losses in trainings] == [STEPS * each if source is KERAS else STEPS for each in parts]
    logged = [loss for losses in trainings for loss in losses]
    trial = trackside.open_trial(str(run))
    recorded: list[tuple[int, float]] = []
    saved: list[tuple[int, float]] = []
    for name in trial.tensor_names(collection="losses"):  # one for each model that was trained
        series = trial.tensor(name)
        means = series.statistic("mean")
        recorded += zip(means.steps.tolist(), means.values.tolist(), strict=True)
        saved += [(each.step, float(np.asarray(each.value).item())) for each in series]
    assert [step for step, _ in sorted(recorded)] == list(range(len(logged)))
    np.testing.assert_allclose([loss for _, loss in sorted(recorded)], logged, atol=CLOSE, rtol=0)
    kept = [*range(0, len(logged), SAVED["losses"])]
    assert [step for step, _ in sorted(saved)] == kept
    assert [loss for _, loss in sorted(saved)] == pytest.approx([logged[step] for step in kept], abs=CLOSE)
