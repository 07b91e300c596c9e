"""A script as users write it, with a learning rate that breaks its training: `broken_trainer.py hf|lightning COUNT`.

A third word draws the trainer's progress bar: `tqdm` or, with Lightning, `rich`.
"""

from __future__ import annotations

import sys

import torch

MOST_STEPS = 20_000


def with_huggingface(processes: int, *, bar: str) -> None:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    from trackside.integrations.huggingface import TracksideCallback

    words = torch.randint(1, 50, (256, 12))
    data = [{"input_ids": row, "labels": row[0] % 2} for row in words]
    config = BertConfig(
        vocab_size=50, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
    arguments = TrainingArguments(
        output_dir="out", max_steps=MOST_STEPS, learning_rate=10.0, report_to=[], use_cpu=True, disable_tqdm=not bar,
        save_steps=100_000, logging_steps=100_000, ddp_backend="gloo" if processes > 1 else None,
    )  # fmt: skip
    callback = TracksideCallback(on_issue="stop")
    trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    print(f"rank {arguments.process_index} ended at step {trainer.state.global_step}", flush=True)


def with_lightning(processes: int, *, bar: str) -> None:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import RichProgressBar, TQDMProgressBar
    from torch.utils.data import DataLoader, TensorDataset

    from trackside.integrations.lightning import TracksideCallback

    class Classifier(LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))

        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1e5)

    bars = {"tqdm": [TQDMProgressBar()], "rich": [RichProgressBar()], "": []}[bar]
    inputs = torch.randn(2048, 10)
    loader = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=8)
    trainer = Trainer(
        max_steps=MOST_STEPS, max_epochs=-1, accelerator="cpu", devices=processes, strategy="ddp", logger=False,
        enable_progress_bar=bool(bar), enable_model_summary=False,
        callbacks=[TracksideCallback(on_issue="stop"), *bars],
    )  # fmt: skip
    trainer.fit(Classifier(), loader)
    print(f"rank {trainer.global_rank} ended at step {trainer.global_step}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    train = with_huggingface if sys.argv[1] == "hf" else with_lightning
    train(int(sys.argv[2]), bar=sys.argv[3] if len(sys.argv) > 3 else "")
