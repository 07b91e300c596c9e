"""How fast are logs of other tools read?

    python -m benchmarks.log_reading [--tensorboard ENV/bin/python] [--rounds 3] [--runs 10] [--points 100000] [--mb 50]
        [--grown 1000]

Two kinds of logs are made here: runs of TensorBoard with four scalars each, and lines of JSON with six numbers.
Readings take turns: ours, then TensorBoard's own `EventAccumulator`, which keeps all points, in a Python that has it;
ours, then `json.loads` of each line. Each is a process of its own. Printed are the processor's time, the greatest
memory, and the median of the ratios of a round. Last, a log of `--grown` MB is read as `--follow` reads it: once, and
again after one more MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from trackside.records.tensorboard_file import encode_scalar, encode_version

TAGS = ("train/loss", "train/learning_rate", "train/grad_norm", "train/accuracy")
_MEASURE = """
import json, resource, sys, time
{imports}
began = time.process_time()
{body}
used = time.process_time() - began
print(json.dumps([used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, count]))
"""
OURS = _MEASURE.format(
    imports="from trackside.imported.finding import LeftOut, find_logs",
    body="count = 0\nfor found in find_logs(sys.argv[1], {}, LeftOut()):\n"
    "    count += sum(len(points) * points.merged for points in found.log.series.values())",
)
FOLLOWED = """
import json, resource, sys, time
from trackside.imported.finding import Growing, LeftOut, find_logs
growing, taken = Growing(), []
for part in range(2):
    began = time.process_time()
    (found,) = find_logs(sys.argv[1], {}, LeftOut(), growing=growing, has_ended=False)
    taken.append(time.process_time() - began)
    if part == 0:
        with open(sys.argv[1], "rb") as file:
            data = file.read(1 << 20)
        with open(sys.argv[1], "ab") as file:
            file.write(data[: data.rfind(b"\\n") + 1])
print(json.dumps([*taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
ACCUMULATOR = _MEASURE.format(
    imports="import glob\nfrom tensorboard.backend.event_processing.event_accumulator import EventAccumulator",
    body="count = 0\nfor folder in sorted(glob.glob(sys.argv[1] + '/*')):\n"
    "    one = EventAccumulator(folder, size_guidance={'scalars': 0})\n"
    "    one.Reload()\n    count += sum(len(one.Scalars(tag)) for tag in one.Tags()['scalars'])",
)
LOADS = _MEASURE.format(
    imports="",
    body="count = 0\nfor line in open(sys.argv[1], 'rb'):\n    count += len(json.loads(line))",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorboard", default="", help="a Python with TensorBoard")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--mb", type=int, default=50)
    parser.add_argument("--grown", type=int, default=0, metavar="MB")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        board, lines = Path(folder, "board"), Path(folder, "log.jsonl")
        write_board(board, runs=chosen.runs, points=chosen.points)
        size = write_lines(lines, megabytes=chosen.mb)
        others = [(chosen.tensorboard, ACCUMULATOR, "EventAccumulator")] if chosen.tensorboard else []
        _compare(f"{chosen.runs} runs x {chosen.points:,} points of TensorBoard", board, others, chosen.rounds)
        ours = _compare(
            f"{size / 1e6:.0f} MB of JSON lines", lines, [(sys.executable, LOADS, "json.loads")], chosen.rounds
        )
        print(f"  {size / 1e6 / ours:.0f} MB/s")
        if chosen.grown:
            write_lines(lines, megabytes=chosen.grown)
            done = subprocess.run(
                [sys.executable, "-c", FOLLOWED, str(lines)], check=True, capture_output=True, text=True
            )
            first, second, megabytes = json.loads(done.stdout)
            print(f"{chosen.grown:,} MB of JSON lines that grow by 1 MB, {megabytes:.0f} MB of memory")
            print(f"  first look {first:.2f} s of processor, the next {second:.3f} s")
    return 0


def write_board(folder: Path, *, runs: int, points: int) -> None:
    """Write runs with a quarter of the points for each of four scalars."""
    random = np.random.default_rng(0)
    for run in range(runs):
        own = folder / f"run{run}"
        own.mkdir(parents=True)
        with (own / "events.out.tfevents.1700000000.host.1.0").open("wb") as file:
            file.write(encode_version(1.7e9))
            for step in range(points // len(TAGS)):
                for tag in TAGS:
                    file.write(encode_scalar(tag, float(random.random()), step=step, wall_time=1.7e9 + step))


def write_lines(path: Path, *, megabytes: int) -> int:
    """Write lines of JSON. Return their bytes."""
    random, step = np.random.default_rng(0), 0
    with path.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            numbers = {name: float(random.random()) for name in ("loss", "grad_norm", "learning_rate", "accuracy")}
            file.write(json.dumps({"step": step, "epoch": step / 1000, **numbers}) + "\n")
            step += 1
    return path.stat().st_size


def _compare(title: str, place: Path, others: Sequence[tuple[str, str, str]], rounds: int) -> float:
    """Print the times of all readers, which take turns. Return the median of ours, in seconds."""
    readers = [(sys.executable, OURS, "trackside"), *others]
    taken: dict[str, list[tuple[float, float]]] = {name: [] for _, _, name in readers}
    for _ in range(rounds):
        counts = set()
        for python, script, name in readers:
            seconds, megabytes, count = _measured(python, script, place)
            taken[name].append((seconds, megabytes))
            counts.add(count)
        if len(counts) > 1 and name != "json.loads":
            raise SystemExit(f"The readers found different numbers of points: {counts}")
    print(title)
    for name, own in taken.items():
        ratio = median([one[0] / other[0] for one, other in zip(own, taken["trackside"], strict=True)])
        seconds, megabytes = median([one for one, _ in own]), max(mb for _, mb in own)
        print(f"  {name:<18} {seconds:8.2f} s of processor, {megabytes:5.0f} MB, x {ratio:.1f}")
    return median([one for one, _ in taken["trackside"]])


def _measured(python: str, script: str, place: Path) -> tuple[float, float, int]:
    done = subprocess.run([python, "-c", script, str(place)], check=True, capture_output=True, text=True)
    seconds, megabytes, count = json.loads(done.stdout)
    return float(seconds), float(megabytes), int(count)


if __name__ == "__main__":
    sys.exit(main())
