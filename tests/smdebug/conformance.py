"""`python -m tests.smdebug.conformance SUITE`: plays a copy of the original's own tests under both packages.

SUITE is a checkout of github.com/awslabs/sagemaker-debugger, or its folder `tests`. Its files stay where they are. The
real smdebug is that of `.venv/smdebug-peer`, which the tests of this folder build; without it only the drop-in is
played. Slow tests, and buckets of AWS's, are left out: a closed port stands for S3.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.smdebug.sides import HERE, Side, ours, theirs

AREAS = ("core", "analysis", "rules", "profiler/core", "pytorch", "xgboost")
PEER = HERE.parents[1] / ".venv" / "smdebug-peer" / "bin" / "python"
SECONDS_AN_AREA = 900.0
NO_AWS = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_MAX_ATTEMPTS": "1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": "us-east-1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # ours are not the suite's
    "SMDEBUG_LOG_LEVEL": "info",  # its tests read the log
}

Outcomes = Mapping[str, str]  # of each test, and of each file that cannot be imported


def played(side: Side, suite: Path, area: str, folder: Path) -> Outcomes:
    """The outcomes of one area under one package."""
    torch = importlib.util.find_spec("torch")
    beside = str(Path(torch.origin or "").parents[1]) if torch is not None else ""
    answer = folder / f"{side.name}-{area.replace('/', '-')}.json"
    command = [side.python, "-W", "ignore", str(HERE / "stand_ins.py"), str(HERE / "suite_player.py")]
    with answer.with_suffix(".log").open("w", encoding="utf-8") as log:
        subprocess.run(
            [*command, str(answer), f"tests/{area}", beside],
            cwd=suite,
            env={**side.given(), **NO_AWS},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SECONDS_AN_AREA,
        )
    return dict(json.loads(answer.read_text("utf-8"))) if answer.exists() else {}


def table(by_area: Mapping[str, tuple[Outcomes, Outcomes]]) -> str:
    """The numbers of both packages, and for the tests that pass under the original alone what ours says to them."""
    lines = ["| area | original | ours | pass on the original alone |", "| --- | --- | --- | --- |"]
    details = []
    for area, (original, drop_in) in by_area.items():
        lost = sorted(test for test, outcome in original.items() if outcome == "passed" and not _passes(drop_in, test))
        lines.append(f"| tests/{area} | {_numbers(original)} | {_numbers(drop_in)} | {len(lost)} |")
        by_reason: dict[str, list[str]] = {}
        for test in lost:
            by_reason.setdefault(_reason(_outcome(drop_in, test)), []).append(test.removeprefix(f"tests/{area}/"))
        details += [f"tests/{area}: {reason}\n  {' '.join(tests)}" for reason, tests in by_reason.items()]
    return "\n".join([*lines, "", *details, ""])


def _passes(outcomes: Outcomes, test: str) -> bool:
    return outcomes.get(test) == "passed"


def _outcome(outcomes: Outcomes, test: str) -> str:
    return outcomes.get(test) or outcomes.get(test.partition("::")[0]) or "not collected"


def _reason(outcome: str) -> str:
    """The reason in a refusal of the drop-in; another outcome as it is."""
    _, refusal, reason = outcome.partition("is not offered by trackside-smdebug. ")
    return reason if refusal else outcome


def _numbers(outcomes: Outcomes) -> str:
    counts = Counter(outcome.partition(":")[0] for outcome in outcomes.values())
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the suite and print the table. Return 0 if each area was played."""
    parser = argparse.ArgumentParser(prog="python -m tests.smdebug.conformance", description=__doc__)
    parser.add_argument("suite", type=Path, help="checkout of the original, or its folder `tests`")
    parser.add_argument("--areas", nargs="+", default=AREAS, help=f"default: {' '.join(AREAS)}")
    parser.add_argument("--keep", type=Path, help="folder for the logs of pytest")
    options = parser.parse_args(arguments)
    tests = options.suite if options.suite.name == "tests" else options.suite / "tests"
    if not (tests / "fixtures" / "error_handling_agent.py").exists():
        parser.error(f"{tests} is not the original's suite: give a checkout of github.com/awslabs/sagemaker-debugger.")
    by_area = {}
    with tempfile.TemporaryDirectory() as folder:
        suite, logs = Path(folder, "suite"), options.keep or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        shutil.copytree(tests, suite / "tests")  # without the package beside it, which would be imported
        for area in options.areas:
            original = played(theirs(PEER), suite, area, logs) if PEER.exists() else {}
            by_area[area] = original, played(ours(), suite, area, logs)
    sys.stdout.write(table(by_area))
    return 0 if all(drop_in for _, drop_in in by_area.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
