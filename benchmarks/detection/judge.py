"""Replays rules over the stored runs of the corpus and prints the quality card.

    python -m benchmarks.detection.judge --split tune --preset calibrated
    python -m benchmarks.detection.judge --split report --preset aws-docs --json card.json

Takes the same choice of runs as `train`, which must have trained them. Nothing is written into the runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.detection.card import Card, Judged, Told, card_of
from benchmarks.detection.presets import rules_of
from benchmarks.detection.stored_runs import Job, Outcome
from benchmarks.detection.train import add_choice, chosen_jobs
from trackside.contracts.rule_request import CALIBRATED, PRESETS, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome as VerdictOutcome
from trackside.contracts.verdict import State
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.progress import ProgressFile
from trackside.evaluation.rule_limits import NO_LIMITS
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.trial.trial import Trial


def judge(stored: tuple[Job, Path], *, request: RuleRequest) -> Judged:
    """What the rules of the request say of one stored run."""
    job, folder = stored
    outcome = Outcome.read(folder)
    assert outcome is not None, f"{job.name} has not been trained"
    run = RunLocation(str((folder / "run").absolute()))
    began = time.process_time()
    evaluator = Evaluator(
        Trial(open_store(run.tensors), open_store(run.statistics)),
        build_rules(request),
        (),
        ProgressFile(MemoryStore()),
        run=job.name,
        clock=lambda: 0.0,
        limits=NO_LIMITS,
    )
    summary = evaluator.watch(poll_seconds=0, sleep=lambda _: None, should_stop=lambda: True)
    fault = job.program.fault(job.fault) if job.fault else None
    return Judged(
        name=job.name,
        program=job.program.name,
        kind=fault.kind if fault else "",
        causes=frozenset(fault.causes) if fault else frozenset(),
        effect_step=outcome.effect_step,
        told=tuple(
            Told(
                rule=verdict.rule_id,
                severity=verdict.severity,
                step=verdict.step,
                group=verdict.group,
                causes=tuple(suspicion.cause for suspicion in verdict.suspicions[:2]),
                message=verdict.message,
            )
            for verdict in summary.verdicts
            if verdict.outcome is VerdictOutcome.ISSUE_FOUND and verdict.state is State.OPENED
        ),
        not_evaluated=tuple(v.rule_id for v in summary.verdicts if v.outcome is VerdictOutcome.NOT_EVALUATED),
        crashed=summary.crashed,
        seconds=time.process_time() - began,
    )


def judge_all(jobs: Sequence[Job], *, root: Path, preset: str, rules: Sequence[str], processes: int) -> Card:
    """The card of all of them; those that were not trained are left out, and said to be."""
    chosen = tuple(rule for rule in rules_of(preset) if not rules or rule.rule_id in rules)
    stored = [(job, folder) for job in jobs if Outcome.read(folder := job.folder(root)) is not None]
    if len(stored) < len(jobs):
        print(f"{len(jobs) - len(stored)} of {len(jobs)} runs have not been trained.", file=sys.stderr)
    judged = _each(partial(judge, request=RuleRequest(chosen)), stored, processes)
    return card_of(judged, preset=preset, rules=[rule.rule_id for rule in chosen])


def _each(ask: partial[Judged], stored: Sequence[tuple[Job, Path]], processes: int) -> list[Judged]:
    """By forked processes, for a program is a function that cannot be sent: each is told which runs are its own."""
    with ProcessPoolExecutor(processes, initializer=_inherit, initargs=()) as pool:
        _Shared.ask, _Shared.stored = ask, stored
        return list(pool.map(_ask, range(len(stored)), chunksize=4))


class _Shared:
    ask: partial[Judged]
    stored: Sequence[tuple[Job, Path]]


def _inherit() -> None:
    """What the children need came with the fork."""


def _ask(number: int) -> Judged:
    return _Shared.ask(_Shared.stored[number])


def main() -> int:
    """Prints the card as Markdown; 1 if a rule crashed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_choice(options)
    options.add_argument("--preset", choices=PRESETS, default=CALIBRATED)
    options.add_argument("--rules", nargs="*", default=[], help="these rules alone")
    options.add_argument("--json", type=Path, help="write the card and what was said of each run there")
    options.add_argument("--verbose", action="store_true", help="a line for each run besides")
    options.add_argument("--processes", type=int, default=2)
    arguments = options.parse_args()
    card = judge_all(
        chosen_jobs(arguments),
        root=arguments.root,
        preset=arguments.preset,
        rules=arguments.rules,
        processes=arguments.processes,
    )
    print("\n".join(card.markdown()))
    if arguments.verbose:
        print("\n".join(card.lines()))
    if arguments.json:
        arguments.json.write_text(json.dumps(card.document(), indent=1) + "\n", encoding="utf-8")
    return 1 if any(judged.crashed for judged in card.runs) else 0


if __name__ == "__main__":
    sys.exit(main())
