#!/usr/bin/env bash
# Stable-Baselines3's `train/loss` is the loss of one minibatch, its `n_updates` counts epochs, and the numbers of the
# last update are written nowhere.
#
# Guess, before the run: `train/loss` is the mean of an update (75 %), `train/n_updates` counts steps of the optimizer
# (65 %), and an update of two is logged twice (80 %).
# Seen, stable-baselines3 2.9.2: PPO with 64 steps a rollout, minibatches of 16 and 4 epochs makes 16 steps an update.
# The parts of the loss beside it (`policy_gradient_loss`, `value_loss`) are means.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check stable-baselines3==2.9.2 gymnasium==1.4.0 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import KVWriter, Logger

torch.set_num_threads(1)


class Written(KVWriter):
    """What is logged."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


written, losses = Written(), []
model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=16, n_epochs=4, seed=0)
model.set_logger(Logger(None, [written]))
backward = torch.Tensor.backward


def seen_backward(loss, *args, **kwargs):
    losses.append(loss.item())
    return backward(loss, *args, **kwargs)


torch.Tensor.backward = seen_backward
model.learn(128)
logged = [row for row in written.rows if "train/loss" in row]
first = losses[:16]
print("steps:", len(losses), "in updates of 16")
print("updates logged:", len(logged), "n_updates of the first:", logged[0]["train/n_updates"])
print("train/loss is the mean:", bool(np.isclose(logged[0]["train/loss"], np.mean(first))))
print("train/loss is the last minibatch's:", bool(np.isclose(logged[0]["train/loss"], first[-1])))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
steps: 32 in updates of 16
updates logged: 1 n_updates of the first: 4
train/loss is the mean: False
train/loss is the last minibatch's: True
OUTPUT
