"""Train the same script twice under `trackside run`: as it is, where one batch ruins it, and with `--rescue`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).parent / "train.py"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for title, options in (("As it is", ()), ("With --rescue", ("--rescue",))):
            print(f"\n== {title} ==", flush=True)
            run = ["-m", "trackside", "run", "--out", f"{folder}/{title.replace(' ', '-')}", "--fail-on", "never"]
            subprocess.run([sys.executable, *run, *options, "--", sys.executable, str(SCRIPT)], check=False)


if __name__ == "__main__":
    main()
