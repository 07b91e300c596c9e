"""`make demo`: plants a fault in a training job on a local AWS account and shows each hop until the job is stopped.

Exits 0 only if every hop really happened, for the faulty twin and for the healthy one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text
from story import (
    EPOCHS,
    ROOT,
    Arrival,
    Hop,
    HopMissing,
    Stage,
    TrainingRun,
    assembly,
    faulty_hops,
    follow,
    healthy_hops,
    set_stage,
)

from trackside.testing.local_account.server import LocalAccount

T = TypeVar("T")
FAULT = "vanishing"
console = Console(highlight=False, soft_wrap=False)


def main() -> int:
    began = time.monotonic()
    console.print("[bold]Trackside[/]  from an unmodified training script to a stopped job\n")
    try:
        with LocalAccount(stop_grace_seconds=5) as account:
            os.environ.update(account.environment())  # noqa: TID251 - our own S3 store must find this account
            stage = prepare(account)
            faulty, seen = play(stage, FAULT, faulty_hops, "Faulty twin", "20 sigmoid layers: its gradients vanish")
            healthy, _ = play(stage, "none", healthy_hops, "Healthy twin", "the same script without the fault")
            summarize(faulty, seen, healthy)
    except HopMissing as missing:
        console.print(f"\n[bold red]✗ A hop is missing[/]  {missing}")
        return 1
    console.print(f"[dim]The whole demo took {time.monotonic() - began:.0f} s.[/]")
    return 0


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
    console.print()
    return stage


def play(
    stage: Stage,
    fault: str,
    hops: Callable[[TrainingRun], tuple[Hop, ...]],
    title: str,
    about: str,
) -> tuple[TrainingRun, dict[str, Arrival]]:
    """Runs one twin and prints each hop as it arrives."""
    console.print(f"[bold]{title}[/]  {about}")
    console.print(f"[dim]  examples/digits/train.py --fault {fault} --epochs {EPOCHS}[/]")
    run = TrainingRun.create(stage, fault)
    seen: dict[str, Arrival] = {}
    with console.status("waiting") as status:
        waiting = Waiting(status, time.monotonic())
        for arrival in follow(run, hops(run), within_seconds=90, on_wait=waiting):
            seen[arrival.hop] = arrival
            console.print(hop_line(arrival))
    console.print()
    return run, seen


class Waiting:
    """The spinner's text: what is awaited, and for how long already."""

    def __init__(self, status: Status, began: float) -> None:
        self._status, self._began, self._say_at = status, began, 5.0

    def __call__(self, hop: str) -> None:
        """Says it; in a log file, where nothing spins, every five seconds."""
        seconds = time.monotonic() - self._began
        self._status.update(f"[dim]waiting: {hop} ({seconds:.0f} s)[/]")
        if not console.is_terminal and seconds >= self._say_at:
            self._say_at += 5
            console.print(f"          ... {hop}?")


def hop_line(arrival: Arrival) -> Text:
    """`   3.1 s ✓ tensors reach S3         step 0: 52 tensors`, cut to one line."""
    line = Text(f"{arrival.seconds:7.1f} s ", style="dim")
    line.append("✓ ", style="green").append(f"{arrival.hop:<24} ", style="default")
    line.append(arrival.detail, style="default")
    line.truncate(console.width, overflow="ellipsis")
    return line


def summarize(run: TrainingRun, seen: dict[str, Arrival], healthy: TrainingRun) -> None:
    """Fault -> finding -> event -> stop, what was saved, where it lies, what shows more."""
    found, event, stopped = seen["a rule finds the fault"], seen["event is on the bus"], seen["training is stopped"]
    issue = run.issues()[0]
    done = run.epochs_done()
    copy = keep_a_copy(run)
    rows = Table.grid(padding=(0, 2))
    rows.add_row("  fault to stop", f"{stopped.seconds:.1f} s: finding {found.seconds:.1f}, event {event.seconds:.1f}")
    rows.add_row("  finding", Text(issue.message))
    steps, all_steps = run.last_step(), healthy.last_step()
    rows.add_row("  saved", f"{EPOCHS - done} of {EPOCHS} epochs, about {all_steps - steps} of {all_steps} steps")
    rows.add_row("  healthy twin", "ran to its end; nobody was disturbed")
    rows.add_row("  run", str(copy.relative_to(ROOT)))
    rows.add_row("  more", f".venv/bin/trackside findings {run.name}")
    console.print("[bold]In short[/]")
    console.print(rows)
    console.print()


def keep_a_copy(run: TrainingRun) -> Path:
    """The account ends with the demo, so the run is copied out of its S3 for the user to look at."""
    from trackside.storage.open_store import open_store

    target = ROOT / ".trackside" / "runs" / run.name
    source, store = open_store(run.run.uri), open_store(str(target))
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
