"""Which silent errors of TrainCheck's list are found without a reference run?

    python -m benchmarks.silent                       # all, each beside its clean twin: some minutes
    python -m benchmarks.silent --only shared-seed

Each program trains in a forked process under capture, two ranks in two, and is judged by the rules as they are by
default. A table is printed: findings of the faulty program beyond those of its twin, and those of the twin.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.detection.capture import capture_request
from benchmarks.detection.presets import rules_of
from benchmarks.detection.train import warm
from benchmarks.silent.programs import ON_TWO_RANKS, PROGRAMS
from trackside.contracts.rule_request import CALIBRATED, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity
from trackside.environment import CaptureEnvironment
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.progress import ProgressFile
from trackside.evaluation.rule_limits import NO_LIMITS
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.trial.trial import Trial

ROOT = Path("build/silent")


def train(name: str, folder: Path, *, is_faulty: bool) -> None:
    """Train a program in one process for each rank, and store its run below `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ranks = 2 if name in ON_TWO_RANKS else 1
    children = [_fork(name, folder, rank, ranks, is_faulty=is_faulty) for rank in range(ranks)]
    states = [os.waitpid(child, 0)[1] for child in children]  # of all: none is left behind
    if any(states):
        raise RuntimeError(f"{name} came to no end: see {folder}/trouble-0.txt")


def _fork(name: str, folder: Path, rank: int, ranks: int, *, is_faulty: bool) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with (folder / f"trouble-{rank}.txt").open("w") as trouble, contextlib.redirect_stderr(trouble):
            try:
                _run(name, folder, rank, ranks, is_faulty=is_faulty)
                status = 0
            except BaseException:  # noqa: BLE001 - the child must end here
                traceback.print_exc()
    finally:
        os._exit(status)


def _run(name: str, folder: Path, rank: int, ranks: int, *, is_faulty: bool) -> None:
    warnings.simplefilter("ignore")
    if ranks > 1:
        where = f"file://{folder.absolute()}/meeting"
        torch.distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks)
    request = capture_request().to_json()
    uri = str((folder / "run").absolute())
    capture = PyTorchAdapter(CaptureEnvironment(run_uri=uri, capture_request=request, rank=rank, world_size=ranks))
    capture.install()
    torch.manual_seed(0)
    os.chdir(folder)  # for what it saves
    PROGRAMS[name](is_faulty)
    capture.uninstall()
    if ranks > 1:
        torch.distributed.barrier()


def issues(folder: Path) -> dict[str, Severity]:
    """Return the severity of each rule with an issue in a stored run."""
    run = RunLocation(str((folder / "run").absolute()))
    evaluator = Evaluator(
        Trial(open_store(run.tensors), open_store(run.statistics)),
        build_rules(RuleRequest(rules_of(CALIBRATED))),
        (),
        ProgressFile(MemoryStore()),
        run=folder.name,
        clock=lambda: 0.0,
        limits=NO_LIMITS,
    )
    summary = evaluator.watch(poll_seconds=0, sleep=lambda _: None, should_stop=lambda: True)
    found = [verdict for verdict in summary.verdicts if verdict.outcome is Outcome.ISSUE_FOUND]
    return {verdict.rule_id: verdict.severity for verdict in found if verdict.severity is not Severity.INFO}


def main(words: Sequence[str] | None = None) -> int:
    """Train and judge the programs, and print the table. Return 1 if a clean twin has an issue."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="*", default=list(PROGRAMS), help="names of programs")
    options.add_argument("--root", type=Path, default=ROOT)
    arguments = options.parse_args(words)
    warm()
    print("| program | found beyond the clean twin | the clean twin |\n|---|---|---|")
    is_alarmed = False
    for name in arguments.only:
        of = {}
        for state in ("clean", "faulty"):
            folder = arguments.root / name / state
            train(name, folder, is_faulty=state == "faulty")
            of[state] = issues(folder)
        beyond = [f"{rule} ({severity.value})" for rule, severity in of["faulty"].items() if rule not in of["clean"]]
        print(f"| {name} | {', '.join(beyond) or 'nothing'} | {', '.join(of['clean']) or 'nothing'} |", flush=True)
        is_alarmed |= bool(of["clean"])
    return int(is_alarmed)


if __name__ == "__main__":
    sys.exit(main())
