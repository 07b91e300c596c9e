"""All programs and their planted faults."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from benchmarks.detection.corpus import planted, programs
from benchmarks.detection.corpus.program import Program
from benchmarks.detection.corpus.registry import registered


@cache
def all_programs() -> Mapping[str, Program]:
    """Every program by name. Imports every file of `programs`, then of `planted`, once."""
    for package in (programs, planted):
        for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
            importlib.import_module(f"{package.__name__}.{found.name}")
    return registered()
