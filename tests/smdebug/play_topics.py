"""Runs the scripts in `topics` one after the other: `python stand_ins.py play_topics.py RUN`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

for script in sorted(Path(__file__).with_name("topics").glob("*.py")):
    print(f"--- {script.stem}", flush=True)
    sys.argv = [str(script), *sys.argv[1:]]
    runpy.run_path(str(script), run_name="__main__")
