"""The blog's training script, letter by letter, under the drop-in on the current PyTorch; the run read by both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.smdebug.sides import HERE, Side, ours, theirs
from trackside.contracts.run_layout import END_MARKER_KEY

(SCRIPT,) = re.findall(r"```python\n(.*?)```", (HERE / "the_training_script.txt").read_text("utf-8"), re.DOTALL)
# What the script leaves open.
FILLED_IN = """
from types import SimpleNamespace

torch.manual_seed(0)
torch.set_num_threads(1)
train_loader = [(torch.randn(6, 4), torch.randint(0, 2, (6,))) for _ in range(10)]
val_loader = train_loader[:3]
train(SimpleNamespace(input_dim=4, learning_rate=0.001, epochs=2))
"""
READ = """
import json, math, sys
from smdebug import modes
from smdebug.trials import create_trial

trial = create_trial(sys.argv[1])
found = {}
for name in trial.tensor_names():
    tensor = trial.tensor(name)
    found[name] = {
        mode.name: {step: math.fsum(tensor.value(step, mode).reshape(-1).tolist()) for step in tensor.steps(mode)}
        for mode in (modes.TRAIN, modes.EVAL)
    }
collections = {name: sorted(trial.collection(name).tensor_names) for name in ("losses", "gradients", "weights")}
print(json.dumps([found, collections]))
"""
COLLECTIONS = {
    "losses": {"save_interval": "1"},
    "gradients": {"save_interval": "4"},
    "weights": {"train.save_interval": 10},
}


def train(folder: Path, **environment: str) -> str:
    configuration = folder / "debughookconfig.json"
    collections = [{"CollectionName": name, "CollectionParameters": each} for name, each in COLLECTIONS.items()]
    out = {"LocalPath": str(folder / "tensors"), "CollectionConfigurations": collections}
    configuration.write_text(json.dumps(out), "utf-8")
    script = folder / "train.py"
    script.write_text(SCRIPT + FILLED_IN, "utf-8")
    return ours(SMDEBUG_CONFIG_FILE_PATH=str(configuration), **environment).run(script)


def read(side: Side, run: Path, folder: Path) -> list[dict[str, Any]]:
    script = folder / "read.py"
    script.write_text(READ, "utf-8")
    return list(json.loads(side.run(script, str(run))))


def test_runs_as_it_stands(smdebug_python: Path, tmp_path: Path) -> None:
    said = train(tmp_path)
    run = tmp_path / "tensors"
    assert (run / END_MARKER_KEY).exists()
    found, collections = read(ours(), run, tmp_path)
    assert [found, collections] == read(theirs(smdebug_python), run, tmp_path)
    losses = found["BCELoss_output_0"]
    assert list(losses["TRAIN"]) == [str(step) for step in range(20)]
    assert list(losses["EVAL"]) == [str(step) for step in range(6)]
    printed = [float(value) for value in re.findall(r"(?:train|val)_loss=(\d\.\d+)", said)]
    epochs = [list(losses[mode].values()) for mode in ("TRAIN", "EVAL")]
    means = [sum(part) / len(part) for k in (0, 1) for part in (epochs[0][10 * k :][:10], epochs[1][3 * k :][:3])]
    assert printed == pytest.approx(means, abs=1e-4)
    names = [f"Sequential_{layer}.{part}" for layer in (0, 3, 6) for part in ("bias", "weight")]
    assert collections["gradients"] == sorted(f"gradient/{name}" for name in names)
    assert list(found["gradient/Sequential_0.weight"]["TRAIN"]) == ["0", "4", "8", "12", "16"]
    assert list(found["Sequential_3.weight"]["TRAIN"]) == ["0", "10"]
    assert collections["losses"] == ["BCELoss_output_0"]


def test_beside_the_capture_that_needs_no_change(tmp_path: Path) -> None:
    """One of them captures, into the run that was asked for from outside; nothing is saved twice."""
    run = tmp_path / "run"
    train(tmp_path, TRACKSIDE_RUN=str(run))
    assert not (tmp_path / "tensors").exists()
    found, _ = read(ours(), run / "debug-output", tmp_path)
    assert list(found["BCELoss_output_0"]["TRAIN"]) == [str(step) for step in range(20)]
    assert list(found["BCELoss_output_0"]["EVAL"]) == [str(step) for step in range(6)]
    assert "BCELoss_output_1" not in found
