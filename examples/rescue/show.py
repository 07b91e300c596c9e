"""Train the same script under `trackside run`: as it is, where one batch ruins it, and rescued in both ways."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).parent / "train.py"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for title, options in (
            ("As it is", ()),
            ("With --rescue", ("--rescue",)),
            ("With --rescue restart", ("--rescue", "restart")),
        ):
            checkpoints = Path(folder, "checkpoints", title)
            checkpoints.mkdir(parents=True)
            print(f"\n== {title} ==", flush=True)
            run = ["-m", "trackside", "run", "--out", f"{folder}/{title.replace(' ', '-')}", "--fail-on", "never"]
            subprocess.run(
                [sys.executable, *run, *options, "--", sys.executable, str(SCRIPT), str(checkpoints)], check=False
            )


if __name__ == "__main__":
    main()
