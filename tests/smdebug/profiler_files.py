"""Profiles of a small training, written for the tests: samples, timelines of two nodes, and profiles of Python code."""

from __future__ import annotations

import cProfile
import json
from pathlib import Path
from typing import Any

MINUTE = 1_700_000_040  # a whole minute, in seconds since the epoch
FIRST = MINUTE * 1_000_000 + 2_000_000  # begin of the first step, in microseconds
STEP, GAP = 100_000, 10_000
NODES = ("11-algo-1", "12-algo-2")


def write_profiles(folder: Path, *, steps: int = 6) -> Path:
    """Write the profiles of a run and return their folder."""
    write_samples(folder)
    for node in NODES:
        write_timeline(folder, node, training(steps, is_slow=node == NODES[1]))
    return folder


def training(steps: int, *, is_slow: bool) -> list[dict[str, Any]]:
    """Return the events of a training: step 3 of the slow node takes five times as long."""
    events = []
    start = 0
    for step in range(steps):
        duration = STEP * 5 if is_slow and step == 3 else STEP
        facts = {"step_num": str(step), "pid": 7}
        events += [
            x("Step:ModeKeys.TRAIN", 1, start, duration, args=facts),
            x("DataLoaderIter::GetNext", 2, start + 10, 20_000, args={"worker_id": 0, "pin_memory": True}),
            {"name": "half", "ph": "B", "pid": 3, "tid": 1, "ts": start + 30_000, "args": {"a": 1}},
            {"name": "inner", "ph": "B", "pid": 3, "tid": 2, "ts": start + 35_000},
            {"ph": "E", "pid": 3, "tid": 1, "ts": start + 50_000, "name": "half"},
            {"ph": "E", "pid": 3, "tid": 2, "ts": start + 60_000, "name": "inner"},
        ]
        start += duration + GAP
    events.append(x("Step:ModeKeys.EVAL", 4, start, STEP, args={"step_num": "0"}))
    return events


def x(name: str, group: int, start: float, duration: float, **more: Any) -> dict[str, Any]:
    """Return a complete event."""
    return {"name": name, "ph": "X", "pid": group, "ts": start, "dur": duration, **more}


def write_timeline(
    folder: Path, node: str, events: list[dict[str, Any]], *, source: str = "pythontimeline.json"
) -> Path:
    """Write a timeline as the original does, and return its path."""
    end = FIRST + max(int(event["ts"] + event.get("dur", 0)) for event in events)
    base = {"start_time_since_epoch_in_micros": FIRST}
    lines = [{"name": "process_name", "ph": "M", "pid": 0, "args": base}]
    names = {1: "Step:ModeKeys.TRAIN", 2: "DataLoaderIter::GetNext", 3: "cpu_functions", 4: "Step:ModeKeys.EVAL"}
    lines += [{"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}} for pid, name in names.items()]
    path = folder / "framework" / "pevents" / "2023111422" / f"{end}_{node}_{source}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(map(json.dumps, [*lines, *events])) + "\n]")
    return path


def write_samples(folder: Path) -> Path:
    """Write samples of two machines, each second for twenty seconds."""
    for place, node in enumerate(("algo-1", "algo-2")):
        path = folder / "system" / "incremental" / "2023111422" / f"{MINUTE}.{node}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for second in range(20):
            for name, kind, dimension, value in (
                ("cpu0", "cpu", "CPUUtilization", 10.0 * place + second),
                ("cpu1", "cpu", "CPUUtilization", 95.0),
                ("gpu0", "gpu", "GPUUtilization", 40.0 if second == 5 else 90.0),
            ):
                line = {"Type": kind, "Name": name, "Dimension": dimension, "Value": value, "NodeId": node}
                lines.append(json.dumps({**line, "Timestamp": MINUTE + second + 0.25}))
        path.write_text("\n".join(lines) + "\n")
    return folder


def write_python_profiles(folder: Path) -> Path:
    """Write profiles of cProfile: before the first step, of steps 1 and 2, and after the last one."""
    top = folder / "framework" / "pytorch" / "cprofile"
    for number, name in enumerate(
        (
            "prestepzero-*-start-{}_train-0-stepstart-{}",
            "train-1-stepstart-{}_train-1-stepend-{}",
            "train-2-stepstart-{}_train-2-stepend-{}",
            "train-2-stepend-{}_posthookclose-*-end-{}",
        )
    ):
        path = top / NODES[0] / name.format(FIRST + number * 1e6, FIRST + number * 1e6 + 5e5) / "python_stats"
        path.parent.mkdir(parents=True)
        profile = cProfile.Profile()
        profile.runcall(sorted, range(number))
        profile.dump_stats(path)
    return top
