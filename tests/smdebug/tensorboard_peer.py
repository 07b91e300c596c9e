"""Runs under the real smdebug 1.0.34: writes TensorBoard files at a fixed time, told by JSON on stdin.

As in `peer.py`, empty modules take the place of those that serve its profiler only.
"""

from __future__ import annotations

import json
import sys
import types

import numpy as np

for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):
    sys.modules[absent] = types.ModuleType(absent)
sys.modules["pyinstrument"].Profiler = object  # type: ignore[attr-defined]  # a stand-in, see above
sys.modules["pyinstrument.renderers"].JSONRenderer = object  # type: ignore[attr-defined]  # a stand-in, see above

from smdebug import modes  # noqa: E402  # after the stand-ins
from smdebug.core.tfevent import event_file_writer  # noqa: E402  # after the stand-ins
from smdebug.core.writer import FileWriter  # noqa: E402  # after the stand-ins

order = json.load(sys.stdin)
event_file_writer.time = types.SimpleNamespace(time=lambda: order["wall_time"])  # histograms take no time of their own
writer = FileWriter(
    trial_dir=order["folder"],
    step=order["step"],
    worker=order["worker"],
    wtype="tensorboard",
    mode=modes[order["mode"]],
    write_checksum=True,
)
for name, value in order["scalars"]:
    writer.write_scalar_summary(name, value, order["step"], timestamp=order["wall_time"])
for name, values in order["histograms"]:
    writer.write_histogram_summary(np.array(values), name, order["step"])
writer.close()
