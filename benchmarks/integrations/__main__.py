"""Runs the callbacks and sinks with the real libraries, in a pinned environment of their own.

    python -m benchmarks.integrations           # builds the environment if it is missing or out of date
    python -m benchmarks.integrations -k hugging
    python -m benchmarks.integrations lock      # choose versions again, by today's index

Nothing leaves this machine: W&B runs offline, and MLflow stores into a file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.wild.environments import REPOSITORY, build, is_built, lock, python_of
from benchmarks.wild.program import Family
from trackside.environment import inherited

HERE = Path(__file__).parent
REQUIREMENTS = ("transformers", "accelerate", "lightning", "wandb", "mlflow", "trackio", "click", "rich", "pytest")


class _Integrations(Family):
    """One environment with every library. It is no family of the corpus, and has no programs."""

    @property
    def lock(self) -> Path:
        return HERE / "integrations.lock"


ENVIRONMENT = _Integrations("integrations", REQUIREMENTS)


def main(words: Sequence[str]) -> int:
    """Run the tests with pytest's options `words`, or lock the environment. Return the exit code."""
    if list(words) == ["lock"]:
        lock(ENVIRONMENT)
        return 0
    if not is_built(ENVIRONMENT):
        build(ENVIRONMENT)
    options = ["-p", "no:cacheprovider", "--override-ini", "filterwarnings=default"]
    command = [str(python_of(ENVIRONMENT)), "-m", "pytest", *options, str(HERE), *words]
    environment = {**inherited(), "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        environment["TRACKIO_DIR"] = folder
        return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
