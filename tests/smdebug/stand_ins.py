"""Runs a script of this folder under the real smdebug or the drop-in: `python stand_ins.py SCRIPT ARGUMENT...`

pandas, psutil and pyinstrument serve smdebug's profiler only, which is not used here: where they are missing, empty
modules take their place.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
import types

if __name__ == "__main__":
    for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):
        if absent.partition(".")[0] in sys.modules or importlib.util.find_spec(absent) is None:
            sys.modules[absent] = types.ModuleType(absent)
    sys.modules.get("pyinstrument", types.ModuleType("x")).Profiler = object  # type: ignore[attr-defined]  # a stand-in
    sys.modules.get("pyinstrument.renderers", types.ModuleType("x")).JSONRenderer = object  # type: ignore[attr-defined]
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
