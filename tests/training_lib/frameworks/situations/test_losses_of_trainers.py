"""The loss of a step is the one that the framework itself logs, and the steps are its own, with 1, 4 and 8 parts.

Each script prints one JSON line: the losses that the framework logged, one for each of its steps. Lightning logs a mean
over an epoch, so an epoch of it is one step here. Keras counts each batch as a step.
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

PARTS, logged = {parts}, []

class Watching(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        logged.extend([logs["loss"]] if "loss" in logs else [])

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 16)

    def forward(self, input_ids, labels):
        scores = self.layer(input_ids.float())
        return {{"loss": torch.nn.functional.cross_entropy(scores, labels[:, -1]), "logits": scores}}

def row(number):
    ids = torch.randint(0, 16, (12,))
    return {{"input_ids": ids, "labels": torch.where(torch.arange(12) < number % 9, -100, ids)}}

torch.manual_seed(0)
small = GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=12)
model = {model}
arguments = TrainingArguments(
    output_dir="out", max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=PARTS, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, seed=1, learning_rate=0.05,
)
rows = [row(number) for number in range(64)]
Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Watching()]).train()
print(json.dumps(logged))
"""

TRL = """
import json
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

PARTS, logged = {parts}, []

class Watching(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        logged.extend([logs["loss"]] if "loss" in logs else [])

torch.manual_seed(0)
words = "abcdefghijklmn"
known = Tokenizer(models.WordLevel({{w: k for k, w in enumerate(["<pad>", "<eos>", *words])}}, unk_token="<pad>"))
known.pre_tokenizer = pre_tokenizers.Whitespace()
tokens = PreTrainedTokenizerFast(tokenizer_object=known, pad_token="<pad>", eos_token="<eos>")
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=16))
texts = [{{"text": " ".join(words[(k * j) % 14] for j in range(1, 4 + k % 9))}} for k in range(64)]
arguments = SFTConfig(
    output_dir="out", max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=PARTS, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, seed=1, learning_rate=0.05, bf16=False,
    gradient_checkpointing=False,
)
SFTTrainer(
    model=model, args=arguments, train_dataset=Dataset.from_list(texts), processing_class=tokens, callbacks=[Watching()]
).train()
print(json.dumps(logged))
"""

LIGHTNING = """
import json, logging, warnings
import torch
from torch import nn

warnings.simplefilter("ignore")
import lightning

PARTS, logged = {parts}, []

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

torch.manual_seed(0)
rows = [(torch.randn(6), torch.randint(0, 3, ()).item()) for _ in range(64)]
loader = torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True)
lightning.Trainer(
    max_epochs=4, limit_train_batches=PARTS, accumulate_grad_batches=PARTS, accelerator="cpu", logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[Watching()],
).fit(Net(), loader)
print(json.dumps(logged))
"""

ACCELERATE = """
import json
import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
from torch import nn

PARTS, logged = {parts}, []

class Notes(GeneralTracker):
    name, requires_logging_directory, tracker = "notes", False, logged

    def store_init_configuration(self, values):
        pass

    def log(self, values, step=None, **_):
        logged.append(values["loss"])

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=PARTS, log_with=Notes())
accelerator.init_trackers("run")
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
rows = [(torch.randn(6), torch.randint(0, 3, ()).item()) for _ in range(4 * PARTS * 4)]
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
        accelerator.log({{"loss": total / PARTS}})
        total = 0.0
print(json.dumps(logged))
"""

KERAS = """
import json, os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

PARTS, logged = {parts}, []

class Watching(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        self.model.reset_metrics()  # else the loss is a mean over the epoch

    def on_train_batch_end(self, batch, logs=None):
        logged.append(float(logs["loss"]))

keras.utils.set_random_seed(0)
layers = keras.layers
model = keras.Sequential([layers.Input((6,)), layers.Dense(5, activation="relu"), layers.Dense(3)])
optimizer = keras.optimizers.Adam(0.05, gradient_accumulation_steps=PARTS if PARTS > 1 else None)
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
draws = np.random.default_rng(0)
rows, labels = draws.normal(size=(4 * PARTS * 4, 6)).astype("float32"), draws.integers(0, 3, 4 * PARTS * 4)
model.fit(rows, labels, batch_size=4, epochs=1, verbose=0, callbacks=[Watching()], shuffle=False)
assert len(logged) == int(optimizer.iterations) * PARTS
print(json.dumps(logged))
"""

PARTS = (1, 4, 8)


@pytest.fixture
def trained(script: Any, trainers_python: Path) -> Any:
    """Runs a script in the trainers' environment, captured. Returns what it printed."""

    def run_it(source: str, run: Path) -> str:
        done = script(source, run=run, intervals=SAVED, python=trainers_python, HF_HUB_OFFLINE="1")
        assert done.returncode == 0, done.stderr[-2000:]
        printed: str = done.stdout
        return printed

    return run_it


def case(name: str, source: str, parts: int, *, model: str = "") -> Any:
    """Return a row: the script, and the number of steps that it counts."""
    is_of_batches = name == "keras"
    script = source.format(parts=parts, model=model)
    return pytest.param(script, STEPS * parts if is_of_batches else STEPS, id=f"{name}-{parts}")


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        *(case("transformers", TRANSFORMERS, parts, model="GPT2LMHeadModel(small)") for parts in PARTS),
        case("own-model", TRANSFORMERS, 4, model="Net()"),
        *(case("trl", TRL, parts) for parts in PARTS),
        *(case("lightning", LIGHTNING, parts) for parts in PARTS),
        *(case("accelerate", ACCELERATE, parts) for parts in PARTS),
        *(case("keras", KERAS, parts) for parts in PARTS),
    ],
)
def test_is_the_loss_that_the_framework_logs(source: str, steps: int, trained: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    logged = json.loads(trained(source, run).splitlines()[-1])
    assert len(logged) == steps
    trial = trackside.open_trial(str(run))
    (name,) = trial.tensor_names(collection="losses")
    recorded = trial.tensor(name).statistic("mean")
    assert recorded.steps.tolist() == list(range(steps))
    np.testing.assert_allclose(recorded.values, logged, atol=CLOSE, rtol=0)
    for step in range(0, steps, SAVED["losses"]):
        assert float(np.asarray(trial.tensor(name).value(step)).item()) == pytest.approx(logged[step], abs=CLOSE)
