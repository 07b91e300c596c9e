"""The compiled loops of Trackside: `LIBRARY` is their file. `trackside` finds and uses it by itself."""

from pathlib import Path

LIBRARY = Path(__file__).with_name("one_pass.so")
