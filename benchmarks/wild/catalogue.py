"""All families and their programs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache

from benchmarks.wild.program import FAMILIES, TORCH, Family, Program


@cache
def all_families() -> Mapping[str, Family]:
    """Return every family by name. Imports every file of `families`, and none of their libraries."""
    return {name: family(name) for name in sorted(path.stem for path in FAMILIES.glob("*.py"))}


def family(name: str) -> Family:
    """Return one family. Imports its file alone."""
    found: Family = importlib.import_module(f"benchmarks.wild.families.{name}").FAMILY
    return found


def all_programs(framework: str = TORCH) -> list[Program]:
    """Return the programs of a framework's families, sorted by family and name."""
    families = [one for one in all_families().values() if one.framework == framework]
    programs = [each for one in families for each in one.programs.values()]
    names = [each.name for each in programs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"Two programs have one name: {', '.join(sorted(twice))}.")
    return sorted(programs, key=lambda each: (each.family, each.name))
