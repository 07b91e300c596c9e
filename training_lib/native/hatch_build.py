"""Compiles all C sources into a shared library without a Python in it: one wheel fits every Python of a platform."""

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).parent / "trackside_native"
# Without contraction each result has the same bits on every processor.
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"]


class CompiledCode(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = os.environ.get("CC") or "cc"  # noqa: TID251 - the build's own setting, as everywhere
        sources = sorted(map(str, FOLDER.glob("*.c")))
        subprocess.run([compiler, *FLAGS, "-o", str(FOLDER / "compiled.so"), *sources, "-lm"], check=True)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append("trackside_native/compiled.so")
