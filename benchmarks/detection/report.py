"""Trains and judges a whole split for every preset, and writes the tables of docs/rule-quality.md.

    python -m benchmarks.detection.report --split report --processes 2 --write docs/rule-quality.md
    python -m benchmarks.detection.report --split tune --seeds 1 --only wine     # prints them

It may be ended and started again at any time: a run that is stored is not trained again, and what was said of a run is
kept beside it (`judged-<preset>.json`) and holds for as long as the code of the rules and of the evaluation does.
What stands above the marker in the file is left as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import kept
from benchmarks.detection.card import Card, Judged, Told, card_of
from benchmarks.detection.judge import judge
from benchmarks.detection.presets import rules_of
from benchmarks.detection.stored_runs import Job, Outcome
from benchmarks.detection.train import add_choice, chosen_jobs, train_all
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import PRESETS, RuleRequest
from trackside.contracts.verdict import Severity

MARKER = "<!-- What follows is written by `python -m benchmarks.detection.report`. -->"

Stored = tuple[Job, Path]


def judged_once(stored: Stored, preset: str) -> Judged:
    """What the rules of a preset say of a stored run: what they said before, if the code is the same, else anew."""
    return kept.judged_once(
        stored[1] / f"judged-{preset}.json",
        lambda: judge(stored, request=RuleRequest(rules_of(preset))),
        to_document=to_document,
        from_document=from_document,
    )


def to_document(judged: Judged) -> dict[str, Any]:
    """Plain JSON values."""
    return {**asdict(judged), "causes": sorted(cause.value for cause in judged.causes)}


def from_document(document: dict[str, Any]) -> Judged:
    """What `to_document` made of it."""
    told = tuple(
        Told(
            **{
                **each,
                "severity": Severity(each["severity"]),
                "causes": tuple(Cause(cause) for cause in each["causes"]),
            }
        )
        for each in document["told"]
    )
    return Judged(
        **{
            **document,
            "causes": frozenset(Cause(cause) for cause in document["causes"]),
            "told": told,
            "not_evaluated": tuple(document["not_evaluated"]),
            "crashed": tuple(document["crashed"]),
        }
    )


class _Shared:
    """What forked children know: a program is a function that cannot be sent."""

    stored: Sequence[Stored]
    preset: str


def _ask(number: int) -> Judged:
    return judged_once(_Shared.stored[number], _Shared.preset)


def judge_all(stored: Sequence[Stored], *, preset: str, processes: int) -> Card:
    """The card of a preset over these runs; tells on stderr how far it is."""
    _Shared.stored, _Shared.preset = stored, preset
    began, found = time.perf_counter(), list[Judged]()
    with ProcessPoolExecutor(processes) as pool:
        for judged in pool.map(_ask, range(len(stored)), chunksize=4):
            found.append(judged)
            if len(found) % 50 == 0:
                print(f"{preset}: {len(found)} of {len(stored)}, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return card_of(found, preset=preset, rules=[rule.rule_id for rule in rules_of(preset)])


def page(cards: Sequence[Card], *, split: str, seeds: int, missing: int) -> Iterator[str]:
    """The written part of the page, line by line."""
    first = cards[0]
    of = len(first.runs) + missing
    yield MARKER
    yield ""
    yield (
        f"{len(first.runs)} of {of} runs of the split `{split}` ({len(first.clean)} clean, {len(first.faulty)} faulty, "
        f"{seeds} seeds of each), torch {torch.__version__}, losses captured at every step. Intervals are Wilson's at "
        "95 %, and count a program's seeds as independent."
    )
    for card in cards:
        yield ""
        yield from (line.replace("# Preset", "## Preset", 1) for line in card.markdown())
        yield ""
        yield f"### {card.preset}: classes of fault found by each rule"
        yield ""
        yield "| rule | found (any alarm since the fault acts) |"
        yield "|---|---|"
        for rule in card.rules:
            shares = [(kind, card.found(kind, rule=rule)) for kind in card.kinds]
            told = ", ".join(f"{kind} {share.value:.0%}" for kind, share in shares if share.count)
            yield f"| {rule} | {told or '-'} |"
        crashed = sorted({rule for run in card.runs for rule in run.crashed})
        if crashed:
            yield ""
            yield f"Crashed: {', '.join(crashed)}."


def write(path: Path, lines: Sequence[str]) -> None:
    """Puts the lines in place of what follows the marker, or at the end of a file that has none."""
    before = (
        path.read_text(encoding="utf-8").partition(MARKER)[0].rstrip() if path.exists() else "# How well the rules do"
    )
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text("\n".join([before, "", *lines]) + "\n", encoding="utf-8")
    os.replace(partial, path)


def main(words: Sequence[str] | None = None) -> int:
    """Trains, judges and writes; 1 if a rule crashed or a training came to no end."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_choice(options)
    options.add_argument("--presets", nargs="*", choices=PRESETS, default=list(PRESETS))
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--write", type=Path, help="the page whose tables are replaced; else they are printed")
    arguments = options.parse_args(words)
    jobs = chosen_jobs(arguments)
    todo = [job for job in jobs if Outcome.read(job.folder(arguments.root)) is None]
    began = time.perf_counter()
    failed = train_all(todo, root=arguments.root, processes=arguments.processes) if todo else []
    print(f"{len(todo)} trained in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    stored = [(job, folder) for job in jobs if Outcome.read(folder := job.folder(arguments.root)) is not None]
    cards = [judge_all(stored, preset=preset, processes=arguments.processes) for preset in arguments.presets]
    lines = [*page(cards, split=arguments.split, seeds=arguments.seeds, missing=len(jobs) - len(stored))]
    if arguments.write:
        write(arguments.write, lines)
    else:
        print("\n".join(lines))
    return 1 if failed or any(run.crashed for card in cards for run in card.runs) else 0


if __name__ == "__main__":
    sys.exit(main())
