"""Train a script under `trackside run` with all rules about speed, and read their verdicts and the profile's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.documents import write_json
from benchmarks.engine.usual import speed_rules
from benchmarks.speed_faults.catalogue import SpeedFault
from trackside.environment import inherited

MOST_SECONDS = 500.0


@dataclass(frozen=True)
class Played:
    """One run.

    script       name of the script
    is_right     True for the right twin
    found        the comparison of each issue, by rule
    judged       rules that had what they need
    bottleneck   verdict of `trackside profile`
    headline     its sentence
    causes       its causes as text
    waiting      share of the steps in which other work had the processor, in percent; as a text, "" if little
    load         load of the machine when the run began
    seconds      seconds of the run
    """

    script: str
    is_right: bool
    found: dict[str, str]
    judged: list[str]
    bottleneck: str
    headline: str
    causes: str
    waiting: str
    load: float
    seconds: float


def play(fault: SpeedFault, *, is_right: bool, folder: Path) -> Played:
    """Train a script, and return the verdicts on its run.

    Raises:
        RuntimeError: The training failed.
    """
    run, answer = folder / "run", folder / "verdicts.json"
    folder.mkdir(parents=True, exist_ok=True)
    python = [sys.executable] if fault.ranks == 1 else [*_torchrun(fault.ranks)]
    script = [*python, str(fault.path), *(["right"] if is_right else [])]
    only = [word for rule in speed_rules() for word in ("--only", rule)]
    command = ["run", "--quiet", "--out", str(run), "--report", str(answer), "--fail-on", "never", *only]
    load, began = os.getloadavg()[0], time.monotonic()
    _trackside([*command, *fault.options, "--", *script], folder)
    seconds = time.monotonic() - began
    profile = json.loads(_trackside(["profile", str(run), "--format", "json"], folder))
    return _read(fault, is_right, json.loads(answer.read_text("utf-8")), profile, load=load, seconds=seconds)


def stored(fault: SpeedFault, *, is_right: bool, folder: Path) -> Played:
    """Return the verdicts on the run of a folder, after training it if it is not there yet."""
    kept = folder / "played.json"
    if not kept.exists():
        write_json(kept, asdict(play(fault, is_right=is_right, folder=folder)))
    return Played(**json.loads(kept.read_text("utf-8")))


def _torchrun(ranks: int) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]


def _trackside(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trackside", *words],
        cwd=folder,
        env={**inherited(), "COLUMNS": "120", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def _read(
    fault: SpeedFault, is_right: bool, verdicts: dict[str, Any], profile: dict[str, Any], *, load: float, seconds: float
) -> Played:
    found: dict[str, str] = {}
    for issue in verdicts["findings"]:
        if issue["state"] == "opened":
            lead = issue["findings"][0]
            found[issue["rule"]] = (
                f"{lead['measure']} {lead['observed']:.3g} {lead['relation']} {lead['threshold']:.3g}"
            )
    worker = profile["workers"][0]
    causes = [
        " · ".join(
            [
                c["kind"],
                c["headline"],
                c["where"],
                c["change"],
                *(f"{n['place']} in {n['function']}: {n['code']}" for n in c["lines"]),
            ]
        )
        for c in worker["causes"]
    ]
    return Played(
        script=fault.script,
        is_right=is_right,
        found=found,
        judged=[rule["rule"] for rule in verdicts["rules"] if rule["state"] in {"OK", "Issue"}],
        bottleneck=worker["bottleneck"],
        headline=worker["headline"],
        causes="\n".join(causes),
        waiting=next((note for note in worker["notes"] if note.startswith("for ")), ""),
        load=load,
        seconds=seconds,
    )
