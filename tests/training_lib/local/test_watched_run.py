"""`trackside.watch` in a script: the sample of docs/explicit-api.md, runs one after the other, and what a user sees."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.warm_python import WarmPython
from trackside.runs.run_folder import RunState, read_record, run_state

PAGE = Path(__file__).parents[3] / "docs" / "explicit-api.md"
TRAINING = """
import json, sys
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 2))

def train(model, steps=40, zero=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(steps):
        if zero:
            optimizer.zero_grad()
        nn.functional.mse_loss(model(torch.randn(8, 4)), torch.zeros(8, 2)).backward()
        optimizer.step()
"""
MORE = """
first = run
assert trackside.watch(rules=()).run != trackside.watch(rules=()).run
captured = trackside.watch("runs/only", rules=())
assert trackside.watch("runs/only") is captured, "a name stands for one run"
train(model, steps=3)
captured.close()
for wrong in ({"rules": ["exploding-tensr"]}, {"model": 5}, {"save": {"losses": 0}}):
    try:
        trackside.watch(**wrong)
    except (trackside.ConfigurationError, TypeError) as error:
        print("REFUSED", type(error).__name__)
again = trackside.watch("runs/only", rules=["gradients-not-cleared"], save={"losses": 1})
train(model, steps=30, zero=True)
again.close()
again.close()
print(json.dumps([repr(first), repr(captured), repr(again), again.run, len(again.findings)]))
left_open = trackside.watch("runs/left", rules=["gradients-not-cleared"])
train(model)
"""


def sample() -> str:
    section = PAGE.read_text(encoding="utf-8").partition("## `trackside.watch` and `trackside.judge`")[2]
    section = section.partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    return "".join(blocks)


def test_a_script_is_judged_and_shows_its_findings(warm_python: WarmPython, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{TRAINING}\n{sample()}\n{MORE}")
    done = warm_python.run(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "critical  gradients-not-cleared, since step 1, train.py:13"
    assert "exploding-tensor Not enough data" in lines  # with `only_nan`, at two of 40 steps
    assert [line.split()[1] for line in lines if line.startswith("REFUSED")] == [
        "ConfigurationError",
        "TypeError",
        "ConfigurationError",
    ]
    first, captured, again, place, findings = json.loads(lines[-1])
    assert "ended, 1 problem, critical, 2 rules through step 39" in first
    assert "captured only" in captured
    assert "ended, no issue, 1 rule through step 29" in again
    assert (place, findings) == (str(tmp_path / "runs" / "only-2"), 0)
    # Each problem once, when it is found; a run without any has its one line; a run left open ends with the process.
    assert done.stderr.count("✖ CRITICAL  gradients-not-cleared") == 2
    assert "trackside: no issue, 1 rule through step 29" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("trackside findings runs/left")
    assert (tmp_path / "runs" / "left" / "debug-output" / "training_job_end.ts").exists()
    assert (tmp_path / ".trackside" / ".gitignore").exists()
    (first_run,) = (tmp_path / ".trackside" / "runs").iterdir()  # a run that never trained leaves no folder
    record = read_record(first_run)
    assert record is not None  # its start is known, and lists show it in its place
    assert (record.command, record.status, run_state(first_run)) == ((str(script),), 0, RunState.FINISHED)
