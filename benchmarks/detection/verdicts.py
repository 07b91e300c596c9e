"""Judges stored runs and compares whole verdicts: which change of the code changed which verdict?

    python -m benchmarks.detection.verdicts build/detection --write before.json
    python -m benchmarks.detection.verdicts build/detection --against before.json     # after the change

A verdict is compared with its rule, severity, step, findings, causes in their order, harm and texts. Nothing is written
into the runs. Leaves with 1 if any verdict differs, so that a change of names alone can be shown to be one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.engine.judge import verdicts_on
from benchmarks.engine.options import parser
from benchmarks.engine.stored import OUTCOME, RUN
from benchmarks.engine.usual import rules_of

Verdicts = Mapping[str, Sequence[Mapping[str, Any]]]


def verdicts_of(name: str, *, root: Path) -> list[dict[str, Any]]:
    """Return every verdict on a stored run, as JSON values.

    Args:
        name: Folder of the run, below the root.
        root: Folder of all runs.
    """
    found = verdicts_on(root / name / RUN, rules_of(), name=name)
    return [json.loads(verdict.to_json()) for verdict in found]


def judge_all(root: Path, *, processes: int) -> Verdicts:
    """Return the verdicts on all stored runs, by run.

    Args:
        root: Folder of all runs.
        processes: Number of processes that judge.
    """
    names = sorted(str(outcome.parent.relative_to(root)) for outcome in root.rglob(OUTCOME))
    with ProcessPoolExecutor(processes) as pool:
        return dict(zip(names, pool.map(partial(verdicts_of, root=root), names, chunksize=4), strict=True))


def differences(before: Verdicts, after: Verdicts) -> Iterator[str]:
    """Yield a line for each field of a verdict that differs, and for each verdict that is new or gone.

    Args:
        before: Verdicts by run.
        after: Verdicts by run; runs that are not in both are left out.
    """
    for run in sorted(before.keys() & after.keys()):
        old, new = _by_occurrence(before[run]), _by_occurrence(after[run])
        for key in sorted({*old, *new}):
            if key not in old or key not in new:
                yield f"{run}: {key} is {'new' if key in new else 'gone'}"
                continue
            names = sorted(name for name in {*old[key], *new[key]} if old[key].get(name) != new[key].get(name))
            yield from (f"{run}: {key} {name}: {old[key].get(name)} -> {new[key].get(name)}" for name in names)


def _by_occurrence(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for verdict in verdicts:
        key = f"{verdict['configuration']} {verdict['outcome']} {verdict.get('state', '')}"
        found[f"{key} {sum(known.startswith(key) for known in found)}"] = verdict
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Judge, and write or compare. Return 1 if a verdict differs."""
    options = parser(__doc__)
    options.add_argument("root", type=Path, help="folder of stored runs")
    options.add_argument("--write", type=Path, help="file for the verdicts")
    options.add_argument("--against", type=Path, help="file of earlier verdicts")
    options.add_argument("--processes", type=int, default=2)
    arguments = options.parse_args(words)
    found = judge_all(arguments.root, processes=arguments.processes)
    print(f"{sum(map(len, found.values()))} verdicts on {len(found)} runs", file=sys.stderr)
    if arguments.write:
        arguments.write.write_text(json.dumps(found), encoding="utf-8")
    if not arguments.against:
        return 0
    lines = list(differences(json.loads(arguments.against.read_text(encoding="utf-8")), found))
    print("\n".join([*lines, f"{len(lines)} differences"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
