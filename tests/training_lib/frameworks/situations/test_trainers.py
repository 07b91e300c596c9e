"""Lightning, Hugging Face's Trainer and accelerate, unmodified, against what their own callbacks see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trackside

ALL = {"losses": 1, "weights": 1, "biases": 1, "gradients": 1}
STEPS = 3

# Each script prints one JSON line: for every optimizer step, the losses of its micro-batches and the squared norm of
# all gradients as the optimizer is about to use them.

TRANSFORMERS = """
import json, os, sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=8))
notes, losses = [], []

class Watching(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, **_):
        squares = sum(p.grad.double().pow(2).sum().item() for p in model.parameters() if p.grad is not None)
        notes.append({"losses": losses[:], "squares": squares})
        losses.clear()

model.register_forward_hook(lambda module, inputs, output: losses.append(output.loss.item()))
data = [{"input_ids": torch.arange(8) % (3 + k), "labels": torch.arange(8) % (3 + k)} for k in range(12)]
arguments = TrainingArguments(
    output_dir=sys.argv[1] if len(sys.argv) > 1 else "out", max_steps=3, per_device_train_batch_size=2,
    gradient_accumulation_steps=2, max_grad_norm=0.5, use_cpu=True, report_to=[], save_strategy="no",
    disable_tqdm=True, logging_strategy="no", seed=1,
)
Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Watching()]).train()
print(json.dumps(notes))
"""

LIGHTNING = """
import json, logging, warnings
import torch
from torch import nn

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        self.notes, self.losses = [], []

    def training_step(self, batch, number):
        values, labels = batch
        loss = nn.functional.cross_entropy(self.layers(values), labels)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, number):
        values, labels = batch
        self.log("validation", nn.functional.cross_entropy(self.layers(values), labels))

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
        squares = sum(p.grad.double().pow(2).sum().item() for p in self.parameters())
        self.notes.append({"losses": self.losses[:], "squares": squares})
        self.losses.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

torch.manual_seed(0)
model = Net()
data = [(torch.randn(6), torch.randint(0, 3, ()).item()) for _ in range(24)]
loader = torch.utils.data.DataLoader(data, batch_size=4)
trainer = lightning.Trainer(
    max_steps=3, accumulate_grad_batches=2, gradient_clip_val=0.5, accelerator="cpu", logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=1,
)
trainer.fit(model, loader, loader)
print(json.dumps(model.notes))
"""

ACCELERATE = """
import json
import torch
from accelerate import Accelerator
from torch import nn

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, mixed_precision="bf16")
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
data = [(torch.randn(6), torch.randint(0, 3, ()).item()) for _ in range(24)]
loader = torch.utils.data.DataLoader(data, batch_size=4)
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
notes, losses = [], []
for values, labels in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(values), labels)
        losses.append(loss.item())
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 0.5)
            squares = sum(p.grad.double().pow(2).sum().item() for p in model.parameters())
            notes.append({"losses": losses[:], "squares": squares})
            losses.clear()
        optimizer.step()
        optimizer.zero_grad()
print(json.dumps(notes))
"""


@pytest.fixture
def trained(script: Any, trainers_python: Path) -> Any:
    """Runs a script in the trainers' environment, captured."""

    def run_it(source: str, run: Path) -> Any:
        return script(source, run=run, intervals=ALL, python=trainers_python, HF_HUB_OFFLINE="1")

    return run_it


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param(
            TRANSFORMERS,
            {"GPT2LMHeadModel_transformer.wte.weight", "gradient/GPT2LMHeadModel_transformer.h.0.attn.c_attn.bias"},
            id="transformers",
        ),
        pytest.param(LIGHTNING, {"Net_layers.0.weight", "gradient/Net_layers.2.bias"}, id="lightning"),
        pytest.param(ACCELERATE, {"Sequential_0.weight", "gradient/Sequential_2.bias"}, id="accelerate"),
    ],
)
def test_captures_what_the_trainer_itself_sees(
    source: str, names: set[str], trained: Any, read: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = trained(source, run)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.lines
    notes = json.loads(done.stdout.splitlines()[-1])
    saved = read(str(run))
    assert list(saved) == list(range(STEPS))
    assert len(notes) == STEPS
    for step, noted in enumerate(notes):
        tensors = saved[step]
        assert names <= tensors.keys()
        (loss,) = [tensors[name] for name in sorted(tensors) if "oss_output_" in name]
        parts = noted["losses"]
        np.testing.assert_allclose(loss, sum(parts) if source is TRANSFORMERS else np.mean(parts), rtol=1e-5)
        gradients = [value for name, value in tensors.items() if name.startswith("gradient/")]
        assert sum(float(np.square(g, dtype=np.float64).sum()) for g in gradients) == pytest.approx(noted["squares"])
        assert not [name for name in tensors if name.startswith("Parameters_")]
    assert trackside.open_trial(str(run)).has_ended
