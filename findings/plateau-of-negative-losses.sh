#!/usr/bin/env bash
# A loss that is stuck below zero (a log-likelihood, a density, an ELBO with the other sign) is progress for three
# libraries.
#
# Guess, before the run (45 %): what watches for a plateau treats a loss stuck at -1 as one stuck at 1.
# Seen, torch 2.13.0, optax 0.2.8, skorch 1.4.0: their default threshold is relative to the best loss, 1e-4 of it above
# the best where it is negative, so the same loss again counts as better. The rate is never lowered, the training never
# stopped. ignite 0.5.5 has an absolute threshold.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 skorch==1.4.0 pytorch-ignite==0.5.5 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import logging

import jax.numpy as jnp
import numpy as np
import optax
import torch
from ignite.engine import Engine
from ignite.handlers import EarlyStopping
from skorch import NeuralNetRegressor
from skorch.callbacks import EarlyStopping as SkorchStopping

logging.disable()
ROUNDS = 30


def of_torch(loss):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for _ in range(ROUNDS):
        schedule.step(loss)
    return optimizer.param_groups[0]["lr"] < 1


def of_optax(loss):
    schedule, weight = optax.contrib.reduce_on_plateau(patience=3), jnp.ones(1)
    state = schedule.init(weight)
    for _ in range(ROUNDS):
        _, state = schedule.update(jnp.ones(1), state, value=loss)
    return bool(state.scale < 1)


class Stuck(torch.nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, predictions, labels):
        return predictions.mean() * 0 + self.loss


def of_skorch(loss):
    rows = np.ones((20, 1), "float32")
    stopping = SkorchStopping(patience=3, sink=lambda *_: None)
    net = NeuralNetRegressor(
        torch.nn.Linear(1, 1), criterion=Stuck, criterion__loss=loss, max_epochs=ROUNDS, verbose=0, callbacks=[stopping]
    )
    return len(net.fit(rows, rows).history) < ROUNDS


def of_ignite(loss):
    trainer = Engine(lambda *_: None)
    stopping = EarlyStopping(3, lambda _: -loss, trainer)
    for _ in range(ROUNDS):
        stopping(trainer)
    return trainer.should_terminate


for name, reacts in {"torch": of_torch, "optax": of_optax, "skorch": of_skorch, "ignite": of_ignite}.items():
    print(f"{name}: reacts to a loss stuck at 1: {reacts(1.0)}, at -1: {reacts(-1.0)}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
torch: reacts to a loss stuck at 1: True, at -1: False
optax: reacts to a loss stuck at 1: True, at -1: False
skorch: reacts to a loss stuck at 1: True, at -1: False
ignite: reacts to a loss stuck at 1: True, at -1: True
OUTPUT
