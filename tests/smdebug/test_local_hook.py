"""`sagemaker_debug_hook_config`: the examples that people copy run as they stand, and give real tensors and times."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.smdebug.sides import HERE, RUNNER, ours
from tests.warm_python import WarmPython
from trackside.contracts.run_layout import END_MARKER_KEY

EXAMPLES = re.findall(r"```python\n(.*?)```", (HERE / "the_local_examples.txt").read_text("utf-8"), re.DOTALL)
STEPS = 23

# Where the examples say `... your model and data loading code ...`.
FILLED_IN = f"""
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(4, 8)
        self.layer2 = nn.Linear(8, 2)

    def forward(self, x):
        return self.layer2(torch.relu(self.layer1(x)))


model, criterion, num_epochs = Net(), nn.CrossEntropyLoss(), 1
data_loader = [(torch.randn(6, 4), torch.randint(0, 2, (6,))) for _ in range({STEPS})]
seen_losses = []
criterion.register_forward_hook(lambda module, args, output: seen_losses.append(output.item()))
"""
# Where they say `... training steps ...`.
BEFORE_THE_LOOP = "    hook.step()"
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
TRAINING_STEPS = """    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
"""
TOLD = """
import json
import sys

answer = {"seen": seen_losses}
if "tensors" in globals():
    answer["tensors"] = {
        name: {step: [list(array.shape), float(array.sum())] for step, array in steps.items()}
        for name, steps in tensors.items()
    }
if "profiler_data" in globals():
    answer["rows"] = [[r.step, r.phase, r.module, r.start, r.duration, r.memory] for r in profiler_data]
open(sys.argv[1], "w").write(json.dumps(answer))
"""


def filled_in(example: str) -> str:
    if "# ... training steps ..." not in example:
        return f"{FILLED_IN}\n{example}\n{TOLD}"
    assert example.count("    # ... training steps ...\n") == 1
    with_steps = example.replace("    # ... training steps ...\n", TRAINING_STEPS)
    return f"{FILLED_IN}{OPTIMIZER}\n{with_steps}\n{TOLD}"


Play = Callable[..., dict[str, Any]]


@pytest.fixture
def play(tmp_path: Path, warm_python: WarmPython) -> Play:
    """What an example leaves; where the environment is not as usual, with a Python of its own."""

    def play_it(example: int, **environment: str) -> dict[str, Any]:
        script, answer = tmp_path / "example.py", tmp_path / "answer.json"
        script.write_text(filled_in(EXAMPLES[example]), "utf-8")
        side = ours(**environment)
        if environment:
            side.run(script, str(answer))
        else:
            done = warm_python.run(RUNNER, str(script), str(answer), env=side.given())
            assert done.returncode == 0, done.stderr[-3000:]
        return dict(json.loads(answer.read_text("utf-8")))

    return play_it


def steps_of(answer: dict[str, Any], name: str) -> list[int]:
    return [int(step) for step in answer["tensors"][name]]


def test_there_are_three_examples() -> None:
    assert [len(example.splitlines()) for example in EXAMPLES] == [35, 24, 23]


def test_tensors(play: Play) -> None:
    answer = play(0)
    losses = answer["tensors"]["CrossEntropyLoss_output_0"]
    assert [value for _, value in losses.values()] == pytest.approx(answer["seen"])
    gradients = [name for name in answer["tensors"] if name.startswith("gradient/")]
    assert sorted(gradients) == [f"gradient/Net_layer{k}.{part}" for k in (1, 2) for part in ("bias", "weight")]
    for name in (*gradients, "CrossEntropyLoss_output_0"):
        assert steps_of(answer, name) == list(range(STEPS)), name
    assert set(answer["tensors"]) == {*gradients, "CrossEntropyLoss_output_0"}


def test_times(play: Play) -> None:
    rows = play(1)["rows"]
    assert sorted({row[0] for row in rows}) == [0, 10, 20]
    found = {(phase, module) for _, phase, module, *_ in rows}
    assert found >= {
        ("forward", "Net"),
        ("forward", "layer1"),
        ("forward", "layer2"),
        ("forward", "CrossEntropyLoss"),
        ("backward", ""),
        ("backward", "layer1"),
        ("backward", "layer2"),
        ("optimizer", "SGD"),
    }
    assert all(duration > 0 and memory > 0 for *_, duration, memory in rows)
    for step in (0, 10, 20):
        of_step = {(phase, module): (start, duration) for n, phase, module, start, duration, _ in rows if n == step}
        assert of_step["forward", "Net"][1] >= of_step["forward", "layer1"][1] + of_step["forward", "layer2"][1]
        order = [of_step[key][0] for key in (("forward", "Net"), ("backward", ""), ("optimizer", "SGD"))]
        assert order == sorted(order)
        assert of_step["backward", ""][1] >= of_step["backward", "layer2"][1]
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)


def test_tensors_and_times_can_be_correlated(play: Play) -> None:
    answer = play(2)
    assert set(answer["tensors"]) == {"layer1_output_0"}
    assert steps_of(answer, "layer1_output_0") == list(range(STEPS))
    assert answer["tensors"]["layer1_output_0"]["0"][0] == [6, 8]
    timed = {row[0] for row in answer["rows"] if row[2] == "layer1"}
    assert timed == {0, 20}
    assert timed <= set(steps_of(answer, "layer1_output_0"))


def test_beside_the_capture_that_needs_no_change(tmp_path: Path, play: Play) -> None:
    """The examples under `trackside run`: one capture, which writes the run and keeps tensors too."""
    run = tmp_path / "run"
    answer = play(0, TRACKSIDE_RUN=str(run))
    assert steps_of(answer, "CrossEntropyLoss_output_0") == list(range(STEPS))
    assert (run / "debug-output" / END_MARKER_KEY).exists()
    assert len(list(run.glob("debug-output/index/*/*.json"))) == STEPS
