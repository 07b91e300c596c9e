"""The parts of the corpus: a program that trains, and a family of programs that share one environment.

A family's file is imported twice: by the commands of the corpus, where its libraries are missing, and by `launch` in
the family's own environment. It therefore imports libraries inside its programs only.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TUNE, REPORT = "tune", "report"
TORCH = "torch"
READ_BEFORE = frozenset({"transformers", "lightning", "torch"})
"""Libraries with runs that people read before the corpus existed, or read in its tests: never in the report half."""

FAMILIES = Path(__file__).parent / "families"
Train = Callable[[int], object]


def split_of(library: str) -> str:
    """Return the half of the corpus that a library belongs to, by its name alone.

    Args:
        library: The name on the package index.

    Returns:
        `tune` if anybody read runs of it before, or if the first byte of its name's SHA-256 is even; else `report`.
    """
    is_even = hashlib.sha256(library.encode()).digest()[0] % 2 == 0
    return TUNE if library in READ_BEFORE or is_even else REPORT


@dataclass(frozen=True)
class Program:
    """A training with a library's own trainer and its default settings.

    name     unique in the corpus
    family   the name of the file and of the environment
    library  the library with the trainer; it decides on the half of the corpus
    data     the source of the data, all of it shipped by a package
    summary  the first line of the function's docstring
    train    trains with a seed
    framework  "torch", "keras" or "xgboost"
    """

    name: str
    family: str
    library: str
    data: str
    summary: str
    train: Train = field(compare=False)
    framework: str = TORCH

    @property
    def split(self) -> str:
        """The half of the corpus. The few programs of other frameworks than PyTorch were all read."""
        return split_of(self.library) if self.framework == TORCH else TUNE


@dataclass
class Family:
    """Programs that share an environment.

    requirements  the packages that are asked for; `<name>.lock` beside the file pins these and all that they need
    imports       the modules that take longest to import, for processes that are forked
    framework     what trains: "torch", "keras" or "xgboost"
    """

    name: str
    requirements: tuple[str, ...]
    imports: tuple[str, ...] = ()
    framework: str = TORCH
    programs: dict[str, Program] = field(default_factory=dict)

    def program(self, library: str, *, data: str) -> Callable[[Train], Train]:
        """Register a function of a seed as a program. Its name, with dashes, is the program's."""

        def register(train: Train) -> Train:
            name = getattr(train, "__name__", "").replace("_", "-")
            if name in self.programs:
                raise ValueError(f"{self.name} has a program {name!r} already.")
            summary = (inspect.getdoc(train) or "").partition("\n")[0]
            self.programs[name] = Program(name, self.name, library, data, summary, train, self.framework)
            return train

        return register

    @property
    def lock(self) -> Path:
        """The file with a version for each package of the environment."""
        return FAMILIES / f"{self.name}.lock"


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
