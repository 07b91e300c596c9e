"""`make demo`: plants a fault in a training job on a local AWS account and shows each effect until the job is stopped.

Exits 0 only if every effect really arrived, for the faulty twin and for the healthy one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text
from story import (
    ROOT,
    Arrival,
    Effect,
    EffectMissing,
    Stage,
    TrainingRun,
    arguments_of,
    assembly,
    faulty_effects,
    follow,
    healthy_effects,
    set_stage,
)

from trackside.storage.local import LocalStore
from trackside_localaccount.server import LocalAccount

T = TypeVar("T")
FAULT = "vanishing"
STOP_GRACE_SECONDS = 30.0  # from SIGTERM to SIGKILL: a training may take its time to store its last steps
SHORT_NAMES = {
    "training job runs": "training runs",
    "rule container starts": "container",
    "tensors reach S3": "tensors",
    "a rule finds the fault": "finding",
    "event is on the bus": "event",
    "owner has the message": "message",
    "metric is in CloudWatch": "metric",
    "training is stopped": "stop",
}
console = Console(highlight=False, soft_wrap=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play both twins. Return 1 if an effect is missing."""
    options = _parse(arguments)
    began = time.monotonic()
    console.print("[bold]Trackside[/]  from an unmodified training script to a stopped job\n")
    try:
        with LocalAccount(stop_grace_seconds=STOP_GRACE_SECONDS) as account:
            os.environ.update(account.environment())  # noqa: TID251 - the trial's own store must find this account
            stage = prepare(account)
            faulty, seen = play(stage, FAULT, faulty_effects, "Faulty twin", "20 sigmoid layers: its gradients vanish")
            healthy, all_well = play(
                stage, "none", healthy_effects, "Healthy twin", "the same script without the fault"
            )
            summarize(faulty, seen)
    except EffectMissing as missing:
        console.print(f"\n[bold red]✗ An effect is missing[/]  {missing.effect}: {missing.why}\n")
        sys.stdout.write(f"{missing.seen}\n")  # logs as they are: no markup, no wrapping
        return 1
    seconds = time.monotonic() - began
    console.print(f"[dim]The whole demo took {seconds:.0f} s.[/]")
    if options.json:
        twins = {
            run.fault: {a.effect: a.seconds for a in effects.values()}
            for run, effects in ((faulty, seen), (healthy, all_well))
        }
        measured = {"seconds": seconds, "start_seconds": stage.start_seconds, "twins": twins}
        options.json.write_text(json.dumps(measured), encoding="utf-8")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measured times there")
    return parser.parse_args(arguments)


def prepare(account: LocalAccount) -> Stage:
    """Synthesizes if the stacks changed, deploys them, and says what stands where."""
    console.print("[bold]Stage[/]")
    folder = timed("stacks synthesized", assembly)
    done("local AWS account", account.endpoint_url)
    stage = timed(
        "stacks deployed",
        lambda: set_stage(account, folder),
        lambda stage: ", ".join(name.removeprefix("Trackside").lower() for name in stage.outputs),
    )
    done("Python with torch starts", "the measure of the time limits of all effects", stage.start_seconds)
    console.print()
    return stage


def play(
    stage: Stage,
    fault: str,
    effects: Callable[[TrainingRun], tuple[Effect, ...]],
    title: str,
    about: str,
) -> tuple[TrainingRun, dict[str, Arrival]]:
    """Runs one twin and prints each effect as it arrives."""
    console.print(f"[bold]{title}[/]  {about}")
    console.print(f"[dim]  examples/digits/train.py {' '.join(arguments_of(fault))}[/]")
    run = TrainingRun.create(stage, fault)
    seen: dict[str, Arrival] = {}
    with console.status("waiting") as status:
        waiting = Waiting(status, time.monotonic())
        for arrival in follow(run, effects(run), on_wait=waiting):
            seen[arrival.effect] = arrival
            console.print(effect_line(arrival))
    console.print()
    return run, seen


class Waiting:
    """The spinner's text: what is awaited, and for how long already."""

    def __init__(self, status: Status, began: float) -> None:
        self._status, self._began, self._report_at = status, began, 5.0

    def __call__(self, effect: str) -> None:
        """Says it; in a log file, where nothing spins, every five seconds."""
        seconds = time.monotonic() - self._began
        self._status.update(f"[dim]waiting: {effect} ({seconds:.0f} s)[/]")
        if not console.is_terminal and seconds >= self._report_at:
            self._report_at += 5
            console.print(f"          ... {effect}?")


def effect_line(arrival: Arrival) -> Text:
    """`   3.1 s ✓ tensors reach S3         step 0: 52 tensors`, cut to one line."""
    line = Text(f"{arrival.seconds:7.1f} s ", style="dim")
    line.append("✓ ", style="green").append(f"{arrival.effect:<24} ", style="default")
    line.append(arrival.detail, style="default")
    line.truncate(console.width, overflow="ellipsis")
    return line


def summarize(run: TrainingRun, seen: dict[str, Arrival]) -> None:
    """Fault -> finding -> event -> stop, the time of each, where the run lies, what shows more."""
    issue = run.issues()[0]
    done, steps = run.epochs_done(), run.last_step()
    copy = keep_a_copy(run)
    rows = Table.grid(padding=(0, 2))
    rows.add_row("  fault to stop", f"{seen['training is stopped'].seconds:.1f} s")
    rows.add_row("  hops", ", ".join(f"{short} {seen[effect].seconds:.1f}" for effect, short in SHORT_NAMES.items()))
    rows.add_row("  finding", Text(issue.message))
    rows.add_row("  stopped", f"after {done} epochs, {steps} steps; by itself it would not have ended")
    rows.add_row("  healthy twin", "ran to its end; nobody was disturbed")
    rows.add_row("  run", str(copy.relative_to(ROOT)))
    rows.add_row("  more", f".venv/bin/trackside findings {run.name}")
    console.print("[bold]In short[/]")
    console.print(rows)
    console.print()


def keep_a_copy(run: TrainingRun) -> Path:
    """The account ends with the demo, so the run is copied out of its S3 for the user to look at."""
    target: Path = ROOT / ".trackside" / "runs" / run.name
    source, store = run.stage.store(run.run.uri), LocalStore(target)
    for key in source.list():
        store.put(key, source.get(key))
    return target


def timed(what: str, act: Callable[[], T], detail: Callable[[T], str] = lambda _: "") -> T:
    began = time.monotonic()
    if not console.is_terminal:
        console.print(f"          ... {what}?")
    with console.status(f"[dim]{what} ...[/]"):
        result = act()
    done(what, detail(result), time.monotonic() - began)
    return result


def done(what: str, detail: str = "", seconds: float = 0.0) -> None:
    line = Text(f"{seconds:7.1f} s ", style="dim").append("✓ ", style="green").append(f"{what:<24} {detail}")
    line.truncate(console.width, overflow="ellipsis")
    console.print(line)


if __name__ == "__main__":
    sys.exit(main())
