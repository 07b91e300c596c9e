"""Processor time of answers of `trackside mcp` with a thousand runs in the folder, and their characters.

python -m benchmarks.agents [--runs 1000] [--rounds 15] [--write docs/agents.md]

One small training runs for real; its folder is copied. Each tool is called by the official client in this process, so
that the time includes the protocol, the schema check and the client, but no pipe. "Read again" is a list that is older
than two seconds. Times are processor times of all threads, since a busy machine stretches all others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client

from benchmarks.engine.pages import replaced
from trackside.agents.runs import Runs
from trackside.agents.server import build_server

SCRIPT = """\
import torch
torch.manual_seed(0)
inputs = torch.randn(256, 8)
labels = (inputs.sum(1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
for step in range(300):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
"""
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_runs", {}),
    ("list_runs", {"worst": "critical"}),
    ("read_verdict", {"run": "run-0500"}),
    ("read_problem", {"run": "run-0500"}),
    ("read_rules_of_run", {"run": "run-0500"}),
    ("read_findings", {"run": "run-0500"}),
    ("list_series", {"run": "run-0500"}),
    ("read_values", {"run": "run-0500", "most": 40}),
    ("compare_runs", {"a": "run-0500", "b": "run-0501"}),
    ("explain_rule", {"rule": "loss-spike"}),
)

LEFT_OUT = ("worst", "rule", "findings", "problem", "series", "values")  # of the sentence


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="trackside-agents-") as place:
        where = runs_below(Path(place), options.runs)
        rows = anyio.run(measured, where, options.rounds)
    load = os.getloadavg()[0]
    lines = [
        f"{options.runs:,} runs in the folder, {options.rounds} calls each, load {load:.1f} on {os.cpu_count()} cores:",
        "",
        "| tool | processor ms, median | slowest | characters |",
        "|---|---|---|---|",
        *(f"| {name} | {median:.1f} | {worst:.1f} | {size:,} |" for name, median, worst, size in rows),
    ]
    print("\n".join(lines))
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        page = replaced(
            page, in_a_sentence(rows, options.runs, load), begin="<!-- measured: agents -->", end="<!-- end -->"
        )
        options.write.write_text(page, encoding="utf-8")


def in_a_sentence(rows: list[tuple[str, float, float, int]], count: int, load: float) -> str:
    """Return the medians as one sentence for the page."""
    medians = ", ".join(
        f"{name} {median:.0f}" for name, median, _, _ in rows if not any(word in name for word in LEFT_OUT)
    )
    where = f"{count:,} runs in the folder, load {load:.1f} on {os.cpu_count()} cores"
    return textwrap.fill(f"Processor milliseconds of an answer with {where}: {medians}.", 120, break_on_hyphens=False)


def runs_below(place: Path, count: int) -> Path:
    """Train once, and copy the run, with the moments of its files."""
    (place / "train.py").write_text(SCRIPT)
    first = place / "first"
    words = [sys.executable, "-m", "trackside", "run", "-q", "--fail-on", "never", "--out", str(first), "--"]
    subprocess.run([*words, sys.executable, "train.py"], cwd=place, check=True, capture_output=True)
    where = place / "runs"
    where.mkdir()
    for number in range(count):
        shutil.copytree(first, where / f"run-{number:04}", copy_function=shutil.copy2)
    return where


async def measured(where: Path, rounds: int) -> list[tuple[str, float, float, int]]:
    """Return name, median and longest time in milliseconds, and characters of each call."""
    now = [0.0]
    runs = Runs(str(where), monotonic=lambda: now[0])
    rows: list[tuple[str, float, float, int]] = []
    async with Client(build_server(runs, None)) as client:
        for tool, arguments in (*CALLS, CALLS[0]):
            is_first = bool(rows) and len(rows) == len(CALLS)
            times, size = [], 0
            for _ in range(rounds + 1):  # the first one imports and fills what stays
                now[0] += 10.0 if is_first else 0.0
                begin = time.process_time()
                result = await client.call_tool(tool, arguments)
                times.append(1000 * (time.process_time() - begin))
                assert not result.is_error, result.content
                size = len(getattr(result.content[0], "text", ""))
            words = " ".join(f"{name}={value}" for name, value in arguments.items() if name not in {"run", "a", "b"})
            name = f"`{tool}`{f' {words}' if words else ''}{', read again' if is_first else ''}"
            rows.append((name, statistics.median(times[1:]), max(times[1:]), size))
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
