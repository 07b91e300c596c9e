"""`python stand_ins.py suite_player.py ANSWER AREA BESIDE [BEFORE]`: runs pytest on an area, and stores each outcome.

BESIDE is the folder to import pytest and PyTorch from where the interpreter has none. BEFORE is a script that runs
first; slow tests are run then, too.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    answer, area, beside, *before = sys.argv[1:]
    sys.path.insert(0, str(Path.cwd()))
    sys.path.append(beside)
    for script in before:
        runpy.run_path(script)
    import pytest

    outcomes: dict[str, str] = {}

    class Recorder:
        """Notes the outcome of each test, and of each file that cannot be imported."""

        def pytest_runtest_logreport(self, report: Any) -> None:
            last = str(report.longrepr).strip().splitlines()[-1][:200] if report.failed else ""
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                outcomes[report.nodeid] = f"failed: {crash.message.splitlines()[0][:400] if crash else last}"
            elif report.when == "call" or report.skipped:
                outcomes.setdefault(report.nodeid, report.outcome)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                outcomes[report.nodeid] = f"not importable: {str(report.longrepr).strip().splitlines()[-1][:400]}"

    own = [
        "-q",
        *([] if before else ["--skipslow"]),
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--import-mode=prepend",
        "-c",
        "/dev/null",
    ]
    pytest.main([*own, "--rootdir", ".", "--continue-on-collection-errors", area], plugins=[Recorder()])
    Path(answer).write_text(json.dumps(outcomes), "utf-8")
