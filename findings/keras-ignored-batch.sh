#!/usr/bin/env bash
# Labels that a loss is told to ignore: what becomes of a batch that has no others, and of the accuracy.
#
# Guess, before the run: such a batch has the loss NaN, as in PyTorch (60 %); "accuracy" leaves ignored labels out (50 %).
# Seen, keras 3.15.1 on torch 2.13.0: the loss of such a batch is 0, which the epoch's loss takes in as a batch like any
# other: two batches of which one has labels show half of the loss. PyTorch says NaN. The accuracy counts ignored labels.
# Such batches come where answers are cut off, and where padding is sorted by length.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch

PADDING, CLASSES = 0, 3
random = np.random.default_rng(0)
scores = random.normal(size=(8, 4, CLASSES)).astype("float32")
labels = random.integers(1, CLASSES, size=(8, 4))
labels[:, 2:] = PADDING
labels[:4] = PADDING


class Scale(keras.layers.Layer):
    def build(self, _):
        self.scale = self.add_weight(shape=(1,), initializer="ones")

    def call(self, inputs):
        return inputs * self.scale


def torch_loss(rows):
    return torch.nn.functional.cross_entropy(
        torch.tensor(scores[rows]).reshape(-1, CLASSES), torch.tensor(labels[rows]).reshape(-1), ignore_index=PADDING
    )


loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=PADDING)
print("torch, batch by batch:", *(f"{torch_loss(rows).item():.4f}" for rows in (slice(0, 4), slice(4, 8))))
print("keras, batch by batch:", *(f"{float(loss(labels[rows], scores[rows])):.4f}" for rows in (slice(0, 4), slice(4, 8))))
model = keras.Sequential([Scale()])
model.compile(optimizer=keras.optimizers.SGD(0.0), loss=loss, metrics=["accuracy"])
seen = model.fit(scores, labels, batch_size=4, shuffle=False, verbose=0).history
print(f"keras, the epoch: {seen['loss'][0]:.4f}")
counted = labels != PADDING
right = scores.argmax(-1) == labels
print(f"accuracy {seen['accuracy'][0]:.4f}, of all {right.mean():.4f}, of those that count {right[counted].mean():.4f}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
torch, batch by batch: nan 1.0711
keras, batch by batch: 0.0000 1.0711
keras, the epoch: 0.5356
accuracy 0.3438, of all 0.3438, of those that count 0.5000
OUTPUT
