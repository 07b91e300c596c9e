"""TensorBoard files: ours are byte for byte those of the real smdebug 1.0.34, for equal input at a fixed time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from trackside.records.tensorboard_file import (
    clean_tag,
    encode_histogram,
    encode_scalar,
    histogram_of,
    original_file_name,
)

SCRIPT = Path(__file__).with_name("tensorboard_peer.py")
WALL_TIME = 1_700_000_000.25
STEP = 12

SCALARS = [("loss:0", 0.5), ("/lr*", 0.1), ("zero", 0.0), ("nan", float("nan")), ("größe", -1e30)]
# Sums of these are exact, whatever their order.
HISTOGRAMS = [
    ("weights/fc.weight:0", [1.0, 2.0, 2.5, -0.5, 0.0, 0.0, 1024.0]),
    ("same", [0.25] * 9),
    ("zeros", [0.0]),
    ("small", [2.0**-50, -(2.0**-50)]),
    ("matrix", [[1.0, -1.0], [8.0, -8.0]]),
]


def test_equal_bytes_under_the_same_name(smdebug_python: Path, tmp_path: Path) -> None:
    order = {
        "folder": str(tmp_path),
        "step": STEP,
        "mode": "EVAL",
        "worker": "345_host.example",
        "wall_time": WALL_TIME,
        "scalars": SCALARS,
        "histograms": HISTOGRAMS,
    }
    command: list[str | Path] = [smdebug_python, "-I", "-W", "ignore", SCRIPT]
    done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (written,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert str(written.relative_to(tmp_path)) == original_file_name("EVAL", STEP, process_id=345, host="host.example")

    ours = [encode_scalar(clean_tag(name), value, step=STEP, wall_time=WALL_TIME) for name, value in SCALARS]
    for name, values in HISTOGRAMS:
        histogram = histogram_of(np.array(values))
        assert histogram is not None
        ours.append(encode_histogram(clean_tag(name), histogram, step=STEP, wall_time=WALL_TIME))
    assert written.read_bytes() == b"".join(ours)
