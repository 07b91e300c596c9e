"""One training by somebody else's trainer, with a fault or none: `training.py TRAINER FAULT SEED FILE`.

It knows nothing of Trackside. The fault comes after half of the steps; the file gets the final loss on other data.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

STEPS, AT = 400, 200
RATE_FACTOR, RATE_STEPS = 300.0, 40
FAULTS = ("none", "broken batch", "infinite weight", "rate jump")


class Planted:
    """The fault, planted into a module.

    Args:
        kind: One of `FAULTS`.
        passes: Forward passes of a step.
    """

    def __init__(self, kind: str, *, passes: int = 1) -> None:
        self._kind, self._at, self._passes = kind, AT * passes, 0

    def into(self, module: nn.Module) -> None:
        """Change what a layer does in the one forward pass."""
        module.register_forward_pre_hook(self._before)
        module.register_forward_hook(self._after)

    def _before(self, module: nn.Module, _inputs: Any) -> None:
        self._passes += module.training
        if self._kind == "infinite weight" and self._passes == self._at and module.training:
            with torch.no_grad():
                next(module.parameters()).view(-1)[0] = math.inf

    def _after(self, module: nn.Module, _inputs: Any, output: Any) -> Any:
        is_broken = self._kind == "broken batch" and self._passes == self._at and module.training
        return output * math.nan if is_broken else output

    def factor(self, step: int) -> float:
        """Return the factor of the rate in a step: a schedule of the script's own."""
        is_wrong = self._kind == "rate jump" and AT <= step < AT + RATE_STEPS
        return (RATE_FACTOR if is_wrong else 1.0) * min(1.0, (step + 1) / 20)


def sentences(count: int, seed: int) -> torch.Tensor:
    """Return rows of 16 tokens, each of which follows from the one before, most of the time."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, 27, (count,), generator=draw)]
    for _ in range(15):
        step = torch.where(torch.rand(count, generator=draw) < 0.8, 1, 5)
        rows.append((rows[-1] - 3 + step) % 24 + 3)
    return torch.stack(rows, dim=1)


def numbers(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of 16 numbers, and the class of each: the largest of three fixed sums."""
    draw, teacher = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(7)
    rows = torch.randn(count, 16, generator=draw)
    return rows, (rows @ torch.randn(16, 4, generator=teacher)).argmax(dim=1)


def classifier() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def loss_of_classes(net: Callable[[torch.Tensor], torch.Tensor]) -> float:
    rows, labels = numbers(1024, 1000)
    with torch.no_grad():
        return functional.cross_entropy(net(rows).float(), labels).item()


def _batches(seed: int, passes: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*numbers(1600, seed)), 16, shuffle=True)
    count = 0
    while True:
        for batch in loader:
            yield tuple(batch)
            count += 1
            if count == STEPS * passes:
                return


def _decoder() -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=27, pad_token_id=0, eos_token_id=1, **sizes, **heads))


def _loss_of_decoder(model: Any) -> float:
    rows = sentences(256, 1000)
    model.eval()
    with torch.no_grad():
        return float(model(input_ids=rows, labels=rows).loss)


def _settings(kind: Any, **more: Any) -> Any:
    return kind(
        "out", max_steps=STEPS, per_device_train_batch_size=16, learning_rate=3e-3, logging_steps=20, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True, **more,
    )  # fmt: skip


def _rates(net: nn.Module, fault: Planted, rate: float) -> tuple[Any, Any]:
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, fault.factor)


def with_transformers(kind: str, seed: int) -> float:
    from transformers import Trainer, TrainingArguments

    model, fault = _decoder(), Planted(kind)
    fault.into(model.model.layers[0].mlp)
    rows = [{"input_ids": row, "labels": row} for row in sentences(1600, seed)]
    optimizers = _rates(model, fault, 3e-3)
    Trainer(model, _settings(TrainingArguments, seed=seed), train_dataset=rows, optimizers=optimizers).train()
    return _loss_of_decoder(model)


def with_trl(kind: str, seed: int) -> float:
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    model, fault = _decoder(), Planted(kind, passes=2)
    fault.into(model.model.layers[0].mlp)
    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2, **{f"w{each}": each for each in range(3, 27)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))  # noqa: S106 - a token of a language
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    rows = Dataset.from_list([{"input_ids": row.tolist()} for row in sentences(1600, seed)])
    settings = _settings(
        SFTConfig, seed=seed, bf16=True, gradient_accumulation_steps=2, gradient_checkpointing=False, max_length=16
    )
    tokens = PreTrainedTokenizerFast(tokenizer_object=inner, **names)
    optimizers = _rates(model, fault, 3e-3)
    SFTTrainer(model, settings, train_dataset=rows, processing_class=tokens, optimizers=optimizers).train()
    return _loss_of_decoder(model)


def with_lightning(kind: str, seed: int) -> float:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import EMAWeightAveraging

    fault = Planted(kind)

    class Classifier(LightningModule):  # type: ignore[misc] # untyped here
        """A classifier as users of Lightning write it."""

        def __init__(self) -> None:
            super().__init__()
            self.net = classifier()

        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _number: int) -> torch.Tensor:
            return functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> dict[str, Any]:
            optimizer, rates = _rates(self, fault, 3e-3)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rates, "interval": "step"}}

    model = Classifier()
    fault.into(model.net[0])
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*numbers(1600, seed)), 16, shuffle=True)
    Trainer(
        max_steps=STEPS, max_epochs=-1, accelerator="cpu", devices=1, precision="bf16-mixed", logger=False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        callbacks=[EMAWeightAveraging(decay=0.98)],
    ).fit(model, loader)  # fmt: skip
    model.eval()
    return loss_of_classes(model.net)  # of the averaged weights, which the callback leaves in it


def with_accelerate(kind: str, seed: int) -> float:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
    net, fault = classifier(), Planted(kind, passes=2)
    fault.into(net[0])
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*numbers(1600, seed)), 16, shuffle=True)
    net, optimizer, loader, rates = accelerator.prepare(net, *_rates(net, fault, 3e-3)[:1], loader, None)
    rates = accelerator.prepare(torch.optim.lr_scheduler.LambdaLR(optimizer.optimizer, fault.factor))
    for _ in range(2 * STEPS // len(loader)):
        for rows, labels in loader:
            with accelerator.accumulate(net):
                accelerator.backward(functional.cross_entropy(net(rows), labels))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                rates.step()
                optimizer.zero_grad()
    return loss_of_classes(accelerator.unwrap_model(net).eval())


def with_scaler(kind: str, seed: int) -> float:
    net, fault, scaler = classifier(), Planted(kind), torch.amp.GradScaler("cpu", init_scale=1024.0)
    fault.into(net[0])
    optimizer, rates = _rates(net, fault, 3e-3)
    for rows, labels in _batches(seed):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = functional.cross_entropy(net(rows), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        rates.step()
    return loss_of_classes(net.eval())


def with_keras(kind: str, seed: int) -> float:
    import keras  # by KERAS_BACKEND=torch

    keras.utils.set_random_seed(seed)
    fault = Planted(kind)
    model = keras.Sequential(
        [
            keras.layers.Input((16,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(4),
        ]
    )
    model.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    fault.into(model.layers[0])

    class Rates(keras.callbacks.Callback):  # type: ignore[misc] # untyped here
        """A schedule of the script's own."""

        steps = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate.assign(3e-3 * fault.factor(self.steps))
            self.steps += 1

    rows, labels = numbers(1600, seed)
    model.fit(rows.numpy(), labels.numpy(), batch_size=16, epochs=STEPS // 100, verbose=0, callbacks=[Rates()])
    return loss_of_classes(lambda some: model(some, training=False))


TRAINERS = {
    "transformers Trainer": with_transformers,
    "TRL SFT, bf16, accumulation": with_trl,
    "Lightning, bf16, average of weights": with_lightning,
    "accelerate, bf16, accumulation, clipping": with_accelerate,
    "fp16 with GradScaler": with_scaler,
    "Keras on PyTorch": with_keras,
}


def main() -> None:
    trainer, kind, seed, file = sys.argv[1:]
    torch.manual_seed(int(seed))
    torch.set_num_threads(1)
    loss = TRAINERS[trainer](kind, int(seed))
    Path(file).write_text(json.dumps({"loss": str(loss)}))


if __name__ == "__main__":
    main()
