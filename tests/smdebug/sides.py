"""The two packages that are compared: each carries out the same script in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

HERE = Path(__file__).parent
RUNNER = HERE / "stand_ins.py"

# Not of the process that runs the tests: they would be answers that neither package gave.
_NOT_INHERITED = ("PYTHONPATH", "TRAINING_JOB_NAME", "AWS_REGION", "AWS_PROFILE")


@dataclass(frozen=True)
class Side:
    """One of the packages: the interpreter that imports it as `smdebug`."""

    name: str
    python: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, script: Path, *arguments: str) -> subprocess.Popen[str]:
        """Begins a script, whose output is read."""
        return subprocess.Popen(
            [self.python, "-W", "ignore", str(RUNNER), str(script), *arguments],
            env=self.given(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: Path, *arguments: str, seconds: float = HANGS_SECONDS) -> str:
        """What a script prints. Fails the test if it does not end well."""
        process = self.start(script, *arguments)
        try:
            said, complained = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            said, complained = process.communicate()
            raise AssertionError(
                f"{self.name}: {script.name} did not end.\n{said[-2000:]}{complained[-2000:]}"
            ) from None
        assert process.returncode == 0, f"{self.name}: {script.name} failed.\n{complained[-3000:]}"
        return said

    def ask(self, script: Path, order: Mapping[str, Any], answer: Path) -> dict[str, Any]:
        """The JSON object that a script leaves in the file `answer`, which it is told after its order, also JSON."""
        self.run(script, json.dumps(order), str(answer))
        return dict(json.loads(answer.read_text("utf-8")))

    def given(self) -> dict[str, str]:
        """The environment of its scripts."""
        kept = {name: value for name, value in inherited().items() if name not in _NOT_INHERITED}
        return {
            **kept,
            "SMDEBUG_TRAINING_END_DELAY_REFRESH": "0",
            "SMDEBUG_LOG_LEVEL": "error",
            **self.environment,
        }


def ours(**environment: str) -> Side:
    return Side("ours", sys.executable, environment)


def theirs(smdebug_python: str | os.PathLike[str], **environment: str) -> Side:
    return Side("theirs", os.fspath(smdebug_python), environment)
