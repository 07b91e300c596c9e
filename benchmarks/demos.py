"""Trains the demonstrations that come with boosting libraries, with `trackside run` and without it.

    python -m benchmarks.demos --python PYTHON --write docs/framework-faults.md XGBOOST LIGHTGBM

XGBOOST and LIGHTGBM are copies of dmlc/xgboost and microsoft/LightGBM. PYTHON has the libraries, matplotlib and
Trackside. Each script is other people's, runs twice bare and once captured, and is thought to be a healthy training.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import inherited
from trackside.trial.trial import Trial, open_trial

LONGEST_SECONDS = 120
SCRIPTS = ("demo/guide-python", "demo/aft_survival", "examples/python-guide")
SURROUNDINGS = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}


@dataclass(frozen=True)
class Demo:
    """The outcome of one script.

    name       folder and file
    is_run     it ends well without us
    is_steady  it prints the same twice
    is_same    it ends in the same way with us, and prints the same if it is steady
    steps      number of captured steps
    issues     rules that found an issue, with their severity
    """

    name: str
    is_run: bool
    is_steady: bool = True
    is_same: bool = True
    steps: int = 0
    issues: tuple[str, ...] = ()


def ran(script: Path, python: str) -> Demo:
    """Run one script bare and captured."""
    name = f"{script.parent.name}/{script.name}"
    bare = [_output([python, script.name], script.parent) for _ in range(2)]
    if bare[0][0] != 0:
        return Demo(name, is_run=False)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        options = ["--out", str(run), "--fail-on", "never", "--"]
        captured = _output([python, "-m", "trackside", "run", *options, python, script.name], script.parent)
        found = verdicts_in(run)
        trial = open_trial(str(run)) if (run / "watermarks").exists() or (run / "statistics").exists() else None
        steps = 0 if trial is None else len(steps_of(trial))
    issues = {f"{v.rule_id} ({v.severity.value})" for v in found if v.outcome is Outcome.ISSUE_FOUND}
    is_steady = bare[0] == bare[1]
    is_same = captured == bare[0] if is_steady else captured[0] == 0
    return Demo(name, True, is_steady, is_same, steps, tuple(sorted(issues)))


def table(found: list[Demo], versions: str) -> str:
    """Return the part of the page: sums and a row for each script."""
    runs = [demo for demo in found if demo.is_run]
    trained = [demo for demo in runs if demo.steps]
    alarmed = [demo for demo in trained if demo.issues]
    critical = [demo for demo in trained if any("critical" in issue for issue in demo.issues)]
    rows = [
        f"| `{demo.name}` | {demo.steps or 'none'} | {', '.join(demo.issues) or 'silent'} "
        f"| {'yes' if demo.is_same else 'NO'}{'' if demo.is_steady else ' (its own output varies)'} |"
        for demo in runs
    ]
    return "\n".join(
        [
            f"{versions}.",
            "",
            (
                f"**{len(runs)} of {len(found)} scripts run here; {len(trained)} of them show losses or metrics; "
                f"{len(alarmed)} of these with an issue, {len(critical)} at critical level; "
                f"{sum(not demo.is_same for demo in runs)} with another end or another output than without capture.**"
            ),
            "",
            "The others need a graphics card, a cluster, downloads or packages that are missing here. A boosting",
            "without evaluated sets shows no losses. The labels of `custom_rmsle.py` are random numbers.",
            "",
            "| script | steps | rules | same output |",
            "| --- | --- | --- | --- |",
            *rows,
        ]
    )


def main() -> None:
    """Carry out the command."""
    options = parser(__doc__)
    options.add_argument("clones", type=Path, nargs="+")
    options.add_argument("--python", default=sys.executable)
    options.add_argument("--write", type=Path)
    arguments = options.parse_args()
    scripts = [
        script
        for clone in arguments.clones
        for folder in SCRIPTS
        if (clone / folder).is_dir()
        for script in sorted((clone / folder).glob("*.py"))
    ]
    found = []
    for script in scripts:
        found.append(ran(script.absolute(), arguments.python))
        print(found[-1], flush=True)
    show = "import xgboost, lightgbm; print(f'XGBoost {xgboost.__version__}, LightGBM {lightgbm.__version__}')"
    _, versions = _output([arguments.python, "-c", show], Path.cwd())
    text = table(found, versions.strip())
    put(text, arguments.write, begin="<!-- demonstrations -->", end="<!-- end -->")


def verdicts_in(run: Path) -> list[Verdict]:
    """Return the verdicts in the folder of a run; none if nothing was judged."""
    file = run / "rule-output" / "verdicts.jsonl"
    return [Verdict.from_json(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def steps_of(trial: Trial) -> set[int]:
    """Return the steps with a saved tensor or a recorded loss."""
    steps = set(trial.steps())
    for mode in ("TRAIN", "EVAL"):
        for name in trial.tensor_names(collection="losses"):
            for column in trial.columns(name, "mean", last_step=10**9, mode=mode):
                steps |= set(column.steps.tolist())
    return steps


def _output(command: list[str], folder: Path) -> tuple[int, str]:
    """Return the exit code and the output of a command; 124 if it takes too long."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**inherited(), **SURROUNDINGS},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout


if __name__ == "__main__":
    main()
