#!/usr/bin/env bash
# With two optimizers Lightning's log counts batches, its checkpoints and `max_steps` count the steps of both.
#
# Guess, before the run (55 %): the column `step` of the log and the step in a checkpoint's name count alike.
# Seen, lightning 2.6.6 with torch 2.13.0: the checkpoint `step=16` belongs to the row of step 7, and `max_steps=8` is
# reached after four batches.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lightning==2.6.6 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import csv
import logging
import os
import tempfile
import warnings

warnings.simplefilter("ignore")
logging.disable()
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger


class Gan(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.parts = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)])

    def training_step(self, batch, number):
        for part, optimizer in zip(self.parts, self.optimizers()):
            loss = part(batch).pow(2).mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        self.log("loss", loss)

    def configure_optimizers(self):
        return [torch.optim.SGD(part.parameters(), 0.01) for part in self.parts]


folder = tempfile.mkdtemp()
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=CSVLogger(folder), log_every_n_steps=4, enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[ModelCheckpoint(folder, every_n_train_steps=4, save_top_k=-1, filename="{step}")],
)
trainer.fit(Gan(), torch.utils.data.DataLoader(torch.ones(8, 1)))
with open(os.path.join(trainer.logger.log_dir, "metrics.csv")) as file:
    print("8 batches, steps in metrics.csv:", *(row["step"] for row in csv.DictReader(file)))
names = sorted((name for name in os.listdir(folder) if name.endswith(".ckpt")), key=len)
print("names of checkpoints:", *names)
print("global_step:", trainer.global_step)
print("max_steps=8 trains batches:", end=" ")
trainer = lightning.Trainer(
    max_steps=8, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Gan(), torch.utils.data.DataLoader(torch.ones(8, 1)))
print(trainer.fit_loop.epoch_loop.total_batch_idx + 1)
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
8 batches, steps in metrics.csv: 3 7
names of checkpoints: step=4.ckpt step=8.ckpt step=12.ckpt step=16.ckpt
global_step: 16
max_steps=8 trains batches: 4
OUTPUT
