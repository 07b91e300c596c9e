"""Are faults of speed named, and their right twins left alone? Trains each, and writes two tables.

    python -m benchmarks.speed_faults.report --rounds 2 --write docs/profiling.md
    python -m benchmarks.speed_faults.report --traceml ENV/bin/python --write docs/profiling.md

Each script of `scripts` trains under `trackside run` with all rules about speed and their defaults, once with its fault
and once without, and `trackside profile` judges the run: the first table, and the card of each rule. With `--traceml`,
an interpreter that has `traceml-ai`, six plain loops train under both tools: the second table. Runs are kept in
`--root` and made once; delete a folder to repeat it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.figures import Share
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.engine.usual import speed_rules
from benchmarks.speed_faults.catalogue import FAULTS, LOOPS, SpeedFault
from benchmarks.speed_faults.play import MOST_SECONDS, Played, stored
from trackside.environment import inherited

ROOT = Path("build/speed-faults")
FAULTS_MARK, CARDS_MARK, LOOPS_MARK = "planted faults", "cards of the rules about speed", "loops beside TraceML"


@dataclass(frozen=True)
class Pair:
    """The runs of a fault and of its right twin, one of each a round."""

    fault: SpeedFault
    faulty: tuple[Played, ...]
    right: tuple[Played, ...]

    @property
    def named_by_rule(self) -> int:
        """Rounds in which each of its rules fired."""
        return sum(set(self.fault.rules) <= run.found.keys() for run in self.faulty)

    @property
    def named_by_profile(self) -> int:
        """Rounds in which the verdict has the kind, and its first cause the line, the object or the change."""
        return sum(is_named(self.fault, run) for run in self.faulty)

    @property
    def silent(self) -> int:
        """Rounds in which no rule fired on the right twin, and the verdict is not that of the fault."""
        return sum(not run.found and run.bottleneck not in self.fault.bottlenecks for run in self.right)


def is_named(fault: SpeedFault, run: Played) -> bool:
    """Return True if the verdict on a run names its fault."""
    first = run.causes.partition("\n")[0]
    return run.bottleneck in fault.bottlenecks and fault.evidence in first


def play_pairs(faults: Sequence[SpeedFault], *, rounds: int, root: Path) -> list[Pair]:
    """Train what is missing, one run at a time, and return all runs."""
    found = []
    for fault in faults:
        runs: dict[bool, list[Played]] = {False: [], True: []}
        for number in range(rounds):
            for is_right in (False, True):
                folder = root / fault.script / f"{number}{'-right' if is_right else ''}"
                runs[is_right].append(stored(fault, is_right=is_right, folder=folder.absolute()))
                print(runs[is_right][-1], file=sys.stderr, flush=True)
        found.append(Pair(fault, tuple(runs[False]), tuple(runs[True])))
    return found


def fault_lines(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the table of the faults."""
    yield "| planted fault | its rule | fired | verdict of `trackside profile` | given | right twin silent |"
    yield "|---|---|---|---|---|---|"
    for pair in pairs:
        rules = ", ".join(f"`{rule}`" for rule in pair.fault.rules)
        verdict = f"{pair.fault.bottlenecks[0]}" + (f", `{pair.fault.evidence}`" if pair.fault.evidence else "")
        yield (
            f"| {pair.fault.title} | {rules} | {pair.named_by_rule} of {len(pair.faulty)} | {verdict} "
            f"| {pair.named_by_profile} of {len(pair.faulty)} | {pair.silent} of {len(pair.right)} |"
        )
    loads = [run.load for pair in pairs for run in (*pair.faulty, *pair.right)]
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield ""
    yield (
        f"{_today()}, {processors} processors, load of the machine {min(loads):.1f} to {max(loads):.1f} beside it; "
        "each run is a process of its own."
    )
    for pair in pairs:
        for run in pair.right:
            for rule, comparison in sorted(run.found.items()):
                yield f"On a right twin, {pair.fault.title}: `{rule}` fired ({comparison})."


def card_lines(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the card of each rule: recall on its own faults, alarms on all right twins."""
    yield "| rule | found, of its faults | fired, of the right twins that it judged | fired beside other faults |"
    yield "|---|---|---|---|"
    right = [run for pair in pairs for run in pair.right]
    for rule in speed_rules():
        own = [run for pair in pairs if rule in pair.fault.rules for run in pair.faulty]
        beside = [
            pair.fault.title
            for pair in pairs
            if rule not in pair.fault.rules
            for run in pair.faulty
            if rule in run.found
        ]
        judged = [run for run in right if rule in run.judged]
        if not own and not judged:
            yield f"| `{rule}` | no such fault here | could not judge here | |"
            continue
        low, high = Share(sum(rule in run.found for run in judged), len(judged)).interval
        yield (
            f"| `{rule}` | {f'{sum(rule in run.found for run in own)} of {len(own)}' if own else 'no such fault here'} "
            f"| {sum(rule in run.found for run in judged)} of {len(judged)} ({low:.0%} to {high:.0%}) "
            f"| {', '.join(sorted(set(beside)))} |"
        )


def traceml_answer(fault: SpeedFault, python: Path, folder: Path) -> str:
    """Return the verdict of TraceML on a script, as its summary has it."""
    kept = folder / "answer.txt"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [
                str(python.parent / "traceml"),
                "run",
                "--mode",
                "summary",
                "--logs-dir",
                str(folder / "logs"),
                str(fault.path),
            ],
            cwd=folder,
            env={**inherited(), "OMP_NUM_THREADS": "1", "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
            timeout=MOST_SECONDS,
        )
        kept.write_text(done.stdout + done.stderr, "utf-8")
    return summary_of(kept.read_text("utf-8"))


def summary_of(output: str) -> str:
    """Return the verdict and the advice of a summary of TraceML."""
    parts = re.findall(r"\b(?:Verdict|Next): (.*?)\s*(?:\|\s*)?$", output, flags=re.MULTILINE)
    return ": ".join(parts[:2]) or "no summary"


def loop_lines(faults: Sequence[SpeedFault], *, python: Path, root: Path) -> Iterator[str]:
    """Yield the table of the loops beside TraceML."""
    yield "| unchanged script | Trackside | TraceML 0.5.0 |"
    yield "|---|---|---|"
    for fault in faults:
        ours = stored(fault, is_right=False, folder=(root / fault.script / "0").absolute())
        theirs = traceml_answer(fault, python, (root / "traceml" / fault.script).absolute())
        print(ours, theirs, file=sys.stderr, flush=True)
        yield f"| {fault.title} | {_in_words(ours)} | {theirs} |"
    yield ""
    yield f"{_today()}. One run each, one after the other, on a shared machine."


def _in_words(run: Played) -> str:
    first = run.causes.partition("\n")[0]
    place = re.search(r"([\w.]+:\d+ in [\w<>]+): ([^·]+)$", first) if run.bottleneck in first else None
    return f"{run.bottleneck}: {run.headline}" + (f"; {place[1]}, `{place[2].strip()}`" if place else "")


def _today() -> str:
    return time.strftime("%d %B %Y", time.gmtime()).removeprefix("0")


def main(words: Sequence[str] | None = None) -> int:
    """Train what is missing, and print the tables or write them."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--only", nargs="+", default=[fault.script for fault in FAULTS], metavar="SCRIPT")
    options.add_argument("--traceml", type=Path, metavar="PYTHON", help="an interpreter that has traceml-ai")
    options.add_argument("--root", type=Path, default=ROOT)
    options.add_argument("--write", type=Path, metavar="PAGE")
    arguments = options.parse_args(words)
    if arguments.traceml:
        tables = {LOOPS_MARK: list(loop_lines(LOOPS, python=arguments.traceml, root=arguments.root))}
    else:
        chosen = [fault for fault in FAULTS if fault.script in arguments.only]
        pairs = play_pairs(chosen, rounds=arguments.rounds, root=arguments.root)
        tables = {FAULTS_MARK: list(fault_lines(pairs)), CARDS_MARK: list(card_lines(pairs))}
    for mark, lines in tables.items():
        put(lines, arguments.write, begin=f"<!-- {mark} -->", end=f"<!-- end of {mark} -->")
    return 0


if __name__ == "__main__":
    sys.exit(main())
