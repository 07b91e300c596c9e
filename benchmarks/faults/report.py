"""Plays events under faults through the functions' handlers, and prints the table of docs/reliability.md.

python -m benchmarks.faults.report --events 10000 --seeds 1 2
python -m benchmarks.faults.report --only "rules ask" --events 200     one kind of case, with functions that often die
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.faults.cases import KINDS
from benchmarks.faults.play import Result, play
from benchmarks.faults.wiring import read_wiring
from stacks.assembly import assembly
from trackside_localaccount.faults import Faults

STORM = Faults(
    duplicate=0.3,
    drop=0.2,
    delay_seconds=600,
    throttle=0.03,
    crash_before=0.002,
    crash_after=0.002,
    lost_answer=0.002,
    late=0.01,
    redeliver=0.02,
    stale=0.1,
)
DEADLY = replace(STORM, crash_before=0.05, crash_after=0.02, lost_answer=0.02, late=0.1, stale=0.3)
OUTAGES = (("dynamodb",), ("sns",), ("sagemaker",), ("s3",), ("sqs",), ("ssm",))


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing was lost and nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults.report", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--outages", action="store_true", help="one run more for each service that is down for an hour")
    parser.add_argument("--only", default="", help="words of the kinds of cases to play alone")
    options = parser.parse_args(arguments)
    cases = [case for _, case in KINDS if options.only and options.only in case.kind]
    wiring, failures = read_wiring(assembly()), 0
    print(
        "| seed | down for an hour | events | jobs | faults tried | deaths | redriven | stops | mails | lost | wrong"
        " | resumed | told twice | too late | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for seed in options.seeds:
        for outage in ((), *(OUTAGES if options.outages else ())):
            faults = replace(DEADLY if cases else STORM, seed=seed)
            failures += _show(outage, play(wiring, faults, events=options.events, outage=outage, cases=cases), seed)
    return 1 if failures else 0


def _show(outage: tuple[str, ...], result: Result, seed: int) -> int:
    print(
        f"| {seed} | {', '.join(outage) or '-'} | {result.events} | {result.jobs} | {_tried(result)} | {result.deaths} "
        f"| {result.redriven} | {result.stops} | {result.mails} | {len(result.lost)} | {len(result.wrong)} "
        f"| {result.resumed} | {result.repeated} | {result.too_late} | {result.seconds:.0f} |",
        flush=True,
    )
    for sentence in (*result.lost[:20], *result.wrong[:20]):
        print(f"  {sentence}", file=sys.stderr)
    return len(result.lost) + len(result.wrong)


def _tried(result: Result) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(result.faults.items()) if count)


if __name__ == "__main__":
    sys.exit(main())
