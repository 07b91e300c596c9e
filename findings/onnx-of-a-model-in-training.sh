#!/usr/bin/env bash
# `torch.onnx.export` of a model left in training exports a dropout that drops, and a batch norm that does not learn.
#
# Guess, before the run (50 %): the new exporter exports evaluation, as the old one does.
# Seen, torch 2.13.0, onnxscript 0.7.2, onnxruntime 1.32.0: with `dynamo=True` the dropout goes on in the file, so
# answers differ from call to call; the batch norm of the same model is that of evaluation. The old exporter exports
# both for evaluation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import logging
import warnings

warnings.simplefilter("ignore")
logging.disable()
import numpy as np
import onnxruntime
import torch

rows = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


def answers(path: str) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [session.run(None, {session.get_inputs()[0].name: rows.numpy()})[0] for _ in range(2)]


for layer in ("Dropout", "BatchNorm1d"):
    for exporter in (False, True):
        torch.manual_seed(0)
        last = torch.nn.Dropout(0.5) if layer == "Dropout" else torch.nn.BatchNorm1d(8)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), last).train()
        torch.onnx.export(model, (rows,), "model.onnx", dynamo=exporter, verbose=False)
        wanted = model.eval()(rows).detach().numpy()
        first, second = answers("model.onnx")
        print(f"{layer}, dynamo={exporter}: as in evaluation: {np.allclose(first, wanted, atol=1e-4)},", end=" ")
        print("twice the same:", np.array_equal(first, second))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
Dropout, dynamo=False: as in evaluation: True, twice the same: True
Dropout, dynamo=True: as in evaluation: False, twice the same: False
BatchNorm1d, dynamo=False: as in evaluation: True, twice the same: True
BatchNorm1d, dynamo=True: as in evaluation: True, twice the same: True
OUTPUT
