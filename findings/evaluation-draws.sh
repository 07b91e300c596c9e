#!/usr/bin/env bash
# A pass over a DataLoader that shuffles nothing and has no workers draws from the global generator, so that a
# validation loader changes the training.
#
# Guess, before the run (55 %): there is nothing to draw without shuffling and workers, so nothing is drawn.
# Seen, torch 2.13.0, lightning 2.6.6: each pass draws a seed for workers. Whoever evaluates more often, or never, gets
# other dropout masks and other weights; a generator of its own for the evaluation's loader keeps them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lightning==2.6.6 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import logging
import warnings

import torch

warnings.simplefilter("ignore")
logging.disable()
import lightning


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))

    def training_step(self, batch, number):
        return self.layers(batch).pow(2).mean()

    def validation_step(self, batch, number):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def loader(**settings):
    return torch.utils.data.DataLoader(torch.arange(8.0)[:, None], batch_size=4, **settings)


def trained(validated):
    lightning.seed_everything(0, verbose=False)
    net = Net()
    lightning.Trainer(
        max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0,
    ).fit(net, loader(), validated)
    return net.layers[0].weight.detach()


torch.manual_seed(0)
without = torch.rand(1)
for name, settings in {"no": {}, "its own": {"generator": torch.Generator()}}.items():
    torch.manual_seed(0)
    list(loader(**settings))
    print(f"a pass in order with {name} generator: the next draw is the same:", bool(torch.rand(1) == without))
alone = trained(None)
print("Lightning: the same weights again:", torch.equal(alone, trained(None)))
print("Lightning: the same weights with a validation loader:", torch.equal(alone, trained(loader())))
print("... with its own generator:", torch.equal(alone, trained(loader(generator=torch.Generator()))))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
a pass in order with no generator: the next draw is the same: False
a pass in order with its own generator: the next draw is the same: True
Lightning: the same weights again: True
Lightning: the same weights with a validation loader: False
... with its own generator: True
OUTPUT
