"""Processor time of the evaluator: its start, and the steps that it judges, beside an older tree.

    python -m benchmarks.judging [--steps 4000] [--rounds 5] [--against OTHER/training_lib/src] [--write PAGE]

Three runs are judged, by each tree in turns, each time in a new process:

- scalars: 20 losses saved at every step, as smdebug's hook would, and one rule that looks at all of them: at one after
  the other (`Window.statistic`), or at all together (`Window.at_step`), as rules of ours do. `finished` is the run at
  its end; `live` grows by 50 steps before each look, and by 1,000 in the rows that name them: an evaluator looks once
  a second.
- network: a small model, trained once with statistics at every step, and all default rules that every tree knows.
- start: the processor time of the network's evaluator from the start of Python until its first step is judged, in
  which it imports the modules of the command and of all default rules.

A tree's verdicts on the network are compared with this tree's; times and ids aside, they must be equal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from trackside.contracts.capture_request import capture_environment
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.environment import inherited
from trackside.rules.catalogue import default_request

HERE = Path(__file__).resolve().parents[1] / "training_lib" / "src"
START, END = "<!-- judging: written by `python -m benchmarks.judging` -->", "<!-- /judging -->"
SCALAR_STEPS, SCALARS, GROWTH, MUCH_GROWTH = 2000, 20, 50, 1000
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
import trackside.evaluation.__main__
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.trial.trial import trial_of
rules = []
for rule_id in sys.argv[2].split(","):
    try:
        rules += build_rules(RuleRequest((RuleConfiguration(rule_id),)))
    except ValueError:
        pass
looks = []  # one at the begin of the poll, one before each step
evaluator = Evaluator(
    trial_of(RunLocation(sys.argv[1])), rules, [], ProgressFile(MemoryStore()), run="run", clock=lambda: 0.0,
    note_progress=lambda: looks.append(time.process_time()) if len(looks) < 3 else None,
)
began = time.process_time()
while not evaluator.is_done:
    evaluator.poll()
seconds, summary = time.process_time() - began, evaluator.summary()
told = [f"{one.rule_id} {one.outcome} {one.step} {one.severity} {one.message}" for one in summary.verdicts]
print(json.dumps({
    "start": looks[2], "seconds": seconds, "steps": max(summary.judged.values()), "rules": len(rules), "verdicts": told
}))
"""
SCALAR_RULE = """
import json, sys, time
from dataclasses import dataclass
import numpy as np
from trackside.capture.writing.run_files import RunFiles
from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Severity
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import Rule
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.trial.trial import Trial

@dataclass(frozen=True)
class OneByOne(Rule):
    rule_id = "one-by-one"
    watches = ("losses",)
    save_interval = 1
    severity = Severity.WARNING

    def check(self, window):
        for name in window.tensors("losses"):
            for column in window.statistic(name, "mean", last=1):
                if column.values[-1] > 1e9:
                    raise AssertionError("the benchmark's losses are small")
        return ()

class Together(OneByOne):
    rule_id = "together"

    def check(self, window):
        if (window.at_step(window.tensors("losses"), "mean").values > 1e9).any():
            raise AssertionError("the benchmark's losses are small")
        return ()

folder, steps, scalars, growth = sys.argv[1], *map(int, sys.argv[2:])
request = CaptureRequest((CollectionRequest("losses", Schedule(1)),))
store, random = LocalStore(folder), np.random.default_rng(0)
files = RunFiles(lambda: store, request=request, worker="worker_0", num_workers=1, ends_run=True)
evaluators = [
    Evaluator(
        Trial(store), [ConfiguredRule(RuleConfiguration(rule.rule_id), rule())], [], ProgressFile(MemoryStore()),
        run="run", clock=time.time,
    )
    for rule in (OneByOne, Together)
]
seconds = [0.0, 0.0]
for step in range(steps):
    row = random.normal(size=scalars).astype("f4")
    named = tuple((f"Loss_{i}_output_0", row[i : i + 1]) for i in range(scalars))
    files.save(StepTensors(step, "TRAIN", step, 1.7e9 + step, named))
    if step == steps - 1:
        files.finish()
    if step % growth == growth - 1:
        for place, evaluator in enumerate(evaluators):
            began = time.process_time()
            evaluator.poll()
            seconds[place] += time.process_time() - began
for evaluator in evaluators:
    while not evaluator.is_done:
        evaluator.poll()
    assert list(evaluator.summary().judged.values()) == [steps], evaluator.summary().judged
print(json.dumps([steps / each for each in seconds]))
"""


def main() -> None:
    """Record a run, let the trees judge it in turns, and print a table."""
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=4000, help="of the recorded run (default 4000)")
    options.add_argument("--rounds", type=int, default=5, help="times that each tree judges it (default 5)")
    options.add_argument("--against", help="the source folder of an older tree")
    options.add_argument("--write", type=Path, metavar="PAGE", help="write the table into this page")
    arguments = options.parse_args()
    trees = {"this tree": str(HERE)} | ({"the other": arguments.against} if arguments.against else {})
    found: dict[str, list[dict[str, Any]]] = {tree: [] for tree in trees}
    with tempfile.TemporaryDirectory(prefix="judging-") as folder:
        request, network = default_request(), Path(folder, "network")
        network.mkdir()
        record(network, request, steps=arguments.steps)
        rule_ids = ",".join(rule.rule_id for rule in request.rules)
        for number in range(arguments.rounds + 1):
            for tree, source in trees.items():
                judged = measure(source, Path(folder), rule_ids)
                if number:  # the first writes byte code
                    found[tree].append(judged)
    differing = {tree for tree, rounds in found.items() for one in rounds if one["verdicts"] != _verdicts(found)}
    table = "\n".join(lines(found, arguments, differing))
    put(table, arguments.write, begin=START, end=END)
    if differing:
        sys.exit(f"Other verdicts on the network: {', '.join(sorted(differing))}")


def measure(source: str, folder: Path, rule_ids: str) -> dict[str, Any]:
    """Return the figures of one round of a tree."""
    network = json.loads(_child(source, JUDGING, str(folder / "network"), rule_ids))
    rates = {}
    for kind, growth in (("finished", SCALAR_STEPS), ("live", GROWTH), ("much", MUCH_GROWTH)):
        with tempfile.TemporaryDirectory(dir=folder) as run:
            rates[kind], rates[f"{kind}, together"] = json.loads(
                _child(source, SCALAR_RULE, run, *map(str, (SCALAR_STEPS, SCALARS, growth)))
            )
    return {**network, **rates}


def lines(
    found: Mapping[str, Sequence[Mapping[str, Any]]], options: argparse.Namespace, differing: set[str]
) -> list[str]:
    """Return the table: a row for each figure, the median with the least and the most."""
    first = found["this tree"][0]
    rows = {
        "start, until the first step is judged": (lambda one: one["start"], "{:.3f} s"),
        f"one rule over {SCALARS} scalars, one by one, finished": (lambda one: one["finished"], "{:,.0f} steps/s"),
        "the same, live": (lambda one: one["live"], "{:,.0f} steps/s"),
        "the same, all together, finished": (lambda one: one["finished, together"], "{:,.0f} steps/s"),
        "the same, all together, live": (lambda one: one["live, together"], "{:,.0f} steps/s"),
        f"one by one, live, {MUCH_GROWTH:,} steps a look": (lambda one: one["much"], "{:,.0f} steps/s"),
        f"all together, live, {MUCH_GROWTH:,} steps a look": (lambda one: one["much, together"], "{:,.0f} steps/s"),
        f"{first['rules']} rules, network, finished": (lambda one: one["steps"] / one["seconds"], "{:,.0f} steps/s"),
        "the same, a step": (lambda one: 1000 * one["seconds"] / one["steps"], "{:.3f} ms"),
    }
    now = time.strftime("%d %B %Y, %H:%M", time.gmtime())
    same = "other" if differing else "the same"
    measured = (
        f"{now} UTC, beside other work on two cores: processor time, {options.rounds} rounds in turns, "
        f"{first['steps']} steps of the network, {SCALAR_STEPS} of the scalars; {same} verdicts in all rounds."
    )
    table = [measured, "", "| what | " + " | ".join(found) + " |", "|---|" + "---:|" * len(found)]
    for name, (figure, form) in rows.items():
        cells = []
        for rounds in found.values():
            figures = [figure(one) for one in rounds]
            low, middle, high = (form.format(one) for one in (min(figures), statistics.median(figures), max(figures)))
            cells.append(f"{middle} ({low.split()[0]} to {high.split()[0]})")
        table.append(f"| {name} | " + " | ".join(cells) + " |")
    return table


def record(folder: Path, request: RuleRequest, *, steps: int) -> None:
    """Train, and record statistics at every step."""
    (folder / RULE_REQUEST_KEY).write_text(request.to_json())
    capture = built_in_catalogue().capture_request(request)
    capture = replace(capture, statistics=replace(capture.statistics, budget=1.0))
    environment = {**inherited(), **capture_environment(str(folder), capture)}
    subprocess.run([sys.executable, "-c", TRAINING, str(steps)], env=environment, check=True)


def _verdicts(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:
    return found["this tree"][0]["verdicts"]


def _child(source: str, code: str, *arguments: str) -> str:
    """Return the output of a process of a tree, with byte code and with one thread of arithmetic."""
    kept = {name: value for name, value in inherited().items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
