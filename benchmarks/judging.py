"""Processor time of judging one step by all default rules, beside an older tree.

    python -m benchmarks.judging [--steps 4000] [--rounds 5] [--against OTHER/training_lib/src]

A training of a small model is recorded once, with statistics at every step. In each round every tree judges the whole
run in a new process; the trees take turns. Only this tree's rules that the other tree knows are judged there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from trackside.contracts.capture_request import capture_environment
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.environment import inherited
from trackside.rules.catalogue import default_request

HERE = Path(__file__).resolve().parents[1] / "training_lib" / "src"
TRAINING = """
import sys, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
loss_of = nn.CrossEntropyLoss()
inputs, labels = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
for step in range(int(sys.argv[1])):
    rows = torch.randint(0, 4096, (32,))
    optimizer.zero_grad()
    loss_of(model(inputs[rows]), labels[rows]).backward()
    optimizer.step()
"""
JUDGING = """
import json, sys, time
from pathlib import Path
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.progress import ProgressFile
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
import trackside
trial = trackside.open_trial(sys.argv[1])
rules = []
for rule_id in sys.argv[2].split(","):
    try:
        rules += build_rules(RuleRequest((RuleConfiguration(rule_id),)))
    except ValueError:
        pass
evaluator = Evaluator(trial, rules, [], ProgressFile(MemoryStore()), run="run", clock=time.time)
began = time.process_time()
while not evaluator.is_done:
    evaluator.poll()
print(json.dumps([time.process_time() - began, max(evaluator.summary().judged.values()), len(rules)]))
"""


def main() -> None:
    """Record a run, let the trees judge it in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4000, help="of the recorded run (default 4000)")
    parser.add_argument("--rounds", type=int, default=5, help="times that each tree judges it (default 5)")
    parser.add_argument("--against", help="the source folder of an older tree")
    options = parser.parse_args()
    trees = {"this tree": str(HERE)} | ({"the other": options.against} if options.against else {})
    with tempfile.TemporaryDirectory(prefix="judging-") as folder:
        request = default_request()
        record(Path(folder), request, steps=options.steps)
        rule_ids = ",".join(rule.rule_id for rule in request.rules)
        found: dict[str, list[list[float]]] = {tree: [] for tree in trees}
        for _ in range(options.rounds):
            for tree, source in trees.items():
                found[tree].append(judge(Path(folder), rule_ids, source))
    print("| tree | rules | steps | a step, median | fastest | slowest |\n|---|---:|---:|---:|---:|---:|")
    for tree, rounds in found.items():
        times = [1000 * seconds / steps for seconds, steps, _ in rounds]
        numbers = f"{statistics.median(times):.3f} ms | {min(times):.3f} ms | {max(times):.3f} ms"
        print(f"| {tree} | {rounds[0][2]} | {rounds[0][1]} | {numbers} |")


def record(folder: Path, request: RuleRequest, *, steps: int) -> None:
    """Train, and record statistics at every step."""
    (folder / RULE_REQUEST_KEY).write_text(request.to_json())
    capture = built_in_catalogue().capture_request(request)
    capture = replace(capture, statistics=replace(capture.statistics, budget=1.0))
    environment = {**inherited(), **capture_environment(str(folder), capture)}
    subprocess.run([sys.executable, "-c", TRAINING, str(steps)], env=environment, check=True)


def judge(folder: Path, rule_ids: str, source: str) -> list[float]:
    """Return seconds of processor, steps and rules of a tree that judges the run."""
    environment = {**inherited(), "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", JUDGING, str(folder), rule_ids]
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: list[float] = json.loads(answer.stdout)
    return found


if __name__ == "__main__":
    main()
