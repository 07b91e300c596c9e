"""How long a fault that lies on disk goes unnoticed: from the faulty step to the verdict in the run, on one machine.

    .venv/bin/python benchmarks/verdict_latency.py [--trials 30] [--step-ms 20] [--steps-before 0]

In each trial a process saves a loss every `--step-ms` as the hook does, beside the evaluator that `trackside run`
starts, with its own settings. At a moment of chance the loss turns NaN and stays so. The time runs from when the files
of the first such step are complete to when `rule-output/verdicts.jsonl` holds the issue. `--steps-before` lets the run
have a past. Target: p95 of at most a second. `idle` is the evaluator's share of one core while nothing happens.
"""

import argparse
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from trackside.capture.run_files import RunFiles
from trackside.capture.writer import StepTensors
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.run_layout import PROGRESS_KEY, RULE_OUTPUT, TENSORS, VERDICTS_KEY
from trackside.contracts.verdict import Outcome
from trackside.environment import inherited
from trackside.local.evaluator_process import EvaluatorProcess
from trackside.storage.local import LocalStore

REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)),))
LOOK_SECONDS = 0.002
MOST_SECONDS = 60.0
IDLE_SECONDS = 3.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=30, help="faults to wait for (default 30)")
    parser.add_argument("--step-ms", type=float, default=20.0, help="pause between two steps (default 20)")
    parser.add_argument("--steps-before", type=int, default=0, help="steps the run has when it is first looked at")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which the faults happen")
    parser.add_argument("--write", metavar="RUN", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(Path(options.write), options.step_ms / 1000)
        return
    chance = np.random.default_rng(options.seed)
    trials = [trial(options, pause_seconds=chance.uniform(0.5, 2.0)) for _ in range(options.trials)]
    seconds = sorted(found for found, _ in trials)
    print(f"a step every {options.step_ms:g} ms after {options.steps_before:,}; {len(trials)} trials\n")
    print(f"{'':24} {'median':>9} {'p95':>9} {'worst':>9} {'target':>12}")
    p95 = seconds[min(len(seconds) - 1, round(0.95 * len(seconds)))]
    figures = " ".join(f"{each:7.3f} s" for each in (statistics.median(seconds), p95, seconds[-1]))
    print(f"{'fault on disk -> verdict':24} {figures} {'p95 <= 1 s':>12}")
    print(f"{'idle':24} {statistics.median(idle for _, idle in trials):7.2%}   of a core")


def trial(options, *, pause_seconds):
    """(seconds from the fault to its verdict, the evaluator's share of a core while idle)."""
    with tempfile.TemporaryDirectory(prefix="verdict-latency-") as folder:
        run = Path(folder)
        save_all(run, range(options.steps_before))
        evaluator = EvaluatorProcess(run, environment=inherited(), say=print, monotonic=time.monotonic)
        command = [sys.executable, __file__, "--write", folder, "--step-ms", str(options.step_ms)]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            evaluator.tend()
            tell(writer, str(options.steps_before))
            wait_for((run / RULE_OUTPUT / PROGRESS_KEY).exists, "the evaluator's first answer")
            time.sleep(pause_seconds)
            tell(writer, "fault")
            fault_at = float(writer.stdout.readline())
            wait_for(lambda: has_issue(run / RULE_OUTPUT / VERDICTS_KEY), "the verdict")
            found = time.time() - fault_at
            tell(writer, "stop")
            writer.wait()
            return found, idle_share(evaluator.pid)
        finally:
            writer.kill()
            evaluator.finish(grace_seconds=10)


def write(run, pause_seconds):
    """The training: saves steps until it is told otherwise; says when the fault lies on disk."""
    step, fault = int(sys.stdin.readline()), False
    while True:
        is_told, _, _ = select.select([sys.stdin], [], [], pause_seconds)
        told = sys.stdin.readline().strip() if is_told else ""
        if told == "stop":
            return
        fault = fault or told == "fault"
        save_all(run, [step], loss=np.nan if fault else 1.0 / (1 + step))
        if told == "fault":
            print(time.time(), flush=True)
        step += 1


def save_all(run, steps, *, loss=None):
    """As the hook does; a run that goes on is opened anew, which changes nothing of what lies there."""
    files = FILES.get(run) or FILES.setdefault(run, open_files(run))
    for step in steps:
        value = np.array([1.0 / (1 + step) if loss is None else loss], np.float32)
        files.save(StepTensors(step, "TRAIN", step, time.time(), (("Loss_output_0", value),)))


def open_files(run):
    store = LocalStore(run / TENSORS)
    return RunFiles(lambda: store, request=REQUEST, worker="worker_0", num_workers=1, ends_run=False)


FILES = {}


def tell(writer, line):
    writer.stdin.write(f"{line}\n")
    writer.stdin.flush()


def has_issue(verdicts):
    return verdicts.exists() and f'"{Outcome.ISSUE_FOUND.value}"' in verdicts.read_text()


def wait_for(is_there, what):
    deadline = time.monotonic() + MOST_SECONDS
    while not is_there():
        if time.monotonic() > deadline:
            sys.exit(f"Gave up after {MOST_SECONDS:g} s of waiting for {what}.")
        time.sleep(LOOK_SECONDS)


def idle_share(pid):
    """Of one core, over some seconds in which nothing is written."""
    before = cpu_seconds(pid)
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds(pid) - before) / IDLE_SECONDS


def cpu_seconds(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    main()
