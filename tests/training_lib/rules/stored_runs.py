"""Trainings of the corpus, trained once and kept in `stored`, so that rules judge real runs without training anew.

`python -m tests.training_lib.rules.stored_runs ROOT` packs them again, from a folder that
`python -m benchmarks.detection.train --split tune --seeds 1 --root ROOT` has filled. They are packed again where what
rules need is not captured in them yet. `make thorough` trains such runs anew: `test_parts_in_turn.py`,
`test_real_runs.py`, `tests/benchmarks/test_corpus_subset.py`.
"""

from __future__ import annotations

import io
import re
import sys
import tarfile
from pathlib import Path

from tests.archives import unpack_archive

STORED = Path(__file__).with_name("stored")
SILENT = ("cancer-logistic/clean", "digits-thawed/clean", "digits-two-models/clean", "wine-sigmoid/clean")
# The rule that finds each.
FAULTY = {
    "digits-thawed/frozen-layers": "parameters-not-trained",
    "digits-two-models/parameters-not-in-optimizer": "parameters-not-trained",
    "wine-mlp/nan-in-data": "exploding-tensor",
}
_SCRIPT = re.compile(rb'"script": "[^"]*"')  # of the machine that trained it


def unpack(name: str, folder: Path) -> Path:
    """Return the folder of a stored run, `PROGRAM/FAULT`, unpacked below `folder`."""
    unpack_archive(_file_of(name), folder)
    return folder / "run"


def pack(name: str, root: Path) -> None:
    """Store a run of seed 0 that lies below `root`."""
    (run,) = root.glob(f"{name}/0-*/run")
    with tarfile.open(_file_of(name), "w:xz") as packed:
        for path in sorted(path for path in run.rglob("*") if path.is_file()):
            content = _SCRIPT.sub(b'"script": "train.py"', path.read_bytes())
            entry = tarfile.TarInfo(f"run/{path.relative_to(run)}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))


def _file_of(name: str) -> Path:
    return STORED / f"{name.replace('/', '-')}.tar.xz"


if __name__ == "__main__":
    for each in (*SILENT, *FAULTY):
        pack(each, Path(sys.argv[1]))
