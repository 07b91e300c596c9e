"""A subset of the corpus, trained and judged by its commands: a change of a rule must judge it as well as before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.detection import train
from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.engine.stored import Outcome
from benchmarks.engine.usual import whole_capture
from tests.patience import HANGS_SECONDS

PROGRAMS = all_programs()
REPOSITORY = Path(__file__).parents[2]

SILENT = ("bandit-policy", "cancer-logistic", "digits-two-rates", "friedman-silu", "gan-digits", "wine-sigmoid")
NAMED = (
    "autoencoder-plain/frozen-layers",
    "autoencoder-plain/missing-zero-grad",
    "autoencoder-plain/parameters-not-in-optimizer",
    "digits-clipped/clipping-too-low",
    "digits-clipped/double-softmax",
    "digits-mlp/constant-inputs",
    "digits-mlp/shuffled-labels",
    "digits-mlp/symmetric-initialisation",
    "wine-mlp/nan-in-data",
)
ONLY = (*(f"{name}/clean" for name in SILENT), *NAMED)
CHOICE = ("--split", "tune", "--seeds", "1", "--only", *ONLY)


def _command(name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.detection.{name}", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the subset lies: trained by the command, judged by the command."""
    root = tmp_path_factory.mktemp("corpus")
    assert _command("train", *CHOICE, "--root", str(root)).startswith(f"{len(ONLY)} trained")
    chosen = (*CHOICE, "--root", str(root), "--presets", "calibrated")
    card = _command("report", *chosen, "--json", str(root / "runs.json"))
    assert f"{len(SILENT)} clean runs, {len(NAMED)} faulty ones" in card
    return root


def test_the_rules_do_as_well_as_before_on_a_subset(root: Path) -> None:
    runs = {run["name"]: run for run in json.loads((root / "runs.json").read_text())}
    alarmed = [
        name
        for name in SILENT
        if any(alarm["severity"] != "info" for alarm in runs[f"{name}/clean/0"]["judged"]["alarms"])
    ]
    unnamed = [name for name in NAMED if not runs[f"{name}/0"]["named"]]
    assert (alarmed, unnamed) == ([], [])


def test_runs_are_stored_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main([*CHOICE, "--root", str(root)]) == 0
    again = capsys.readouterr().out
    assert again.startswith("0 trained")
    assert f"{len(ONLY)} of {len(ONLY)} stored" in again

    job = train.Job(PROGRAMS["wine-mlp"], "nan-in-data", 0, whole_capture().to_json())
    outcome = Outcome.read(job.folder(root))
    assert outcome is not None
    assert outcome.score is None or outcome.score < PROGRAMS["wine-mlp"].at_least
    assert outcome.effect_step == 0
    assert (job.folder(root) / "run" / "debug-output" / "training_job_end.ts").exists()
