"""The compiled code of Trackside: `LIBRARY` is its file. `trackside` finds and uses it by itself."""

from pathlib import Path

LIBRARY = Path(__file__).with_name("compiled.so")
