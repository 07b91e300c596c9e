"""Runs a script of this folder under the real smdebug or the drop-in: `python stand_ins.py SCRIPT ARGUMENT...`

pandas, psutil and pyinstrument serve smdebug's profiler only, which is not used here: where they are missing, empty
modules take their place. Both packages look for news of a live run every two seconds: SLEEP_AT_MOST, in seconds, bounds
every sleep, so that tests need not wait.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import runpy
import sys
import time
import types

if __name__ == "__main__":
    for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):
        if absent.partition(".")[0] in sys.modules or importlib.util.find_spec(absent) is None:
            sys.modules[absent] = types.ModuleType(absent)
            sys.modules[absent].__spec__ = importlib.machinery.ModuleSpec(
                absent, None
            )  # others ask whether it is there
    sys.modules.get("pyinstrument", types.ModuleType("x")).Profiler = object  # type: ignore[attr-defined]  # a stand-in
    sys.modules.get("pyinstrument.renderers", types.ModuleType("x")).JSONRenderer = object  # type: ignore[attr-defined]
    most = os.environ.pop("SLEEP_AT_MOST", None)  # noqa: TID251 - it also runs where there is no Trackside
    if most is not None:
        sleep, seconds_at_most = time.sleep, float(most)
        time.sleep = lambda seconds: sleep(min(seconds, seconds_at_most))
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
