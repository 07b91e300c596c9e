"""What an operator is: one mistake, planted at a seam of PyTorch that every training program has."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks.mutants.seams import Seams
from trackside.contracts.cause import Cause

TUNE, REPORT = "tune", "report"
FAMILIES = (
    "data", "labels", "sampler", "loss", "gradients", "optimizer", "schedule",
    "initialisation", "activations", "modes", "freezing", "precision", "resume", "evaluation",
)  # fmt: skip
Plant = Callable[[Seams], None]


def half_of(family: str) -> str:
    """Return the half of a family of operators, by its name alone: `tune` if its SHA-256 begins with an even byte."""
    return TUNE if hashlib.sha256(family.encode()).digest()[0] % 2 == 0 else REPORT


@dataclass(frozen=True)
class Operator:
    """A mistake that is planted into a running process.

    name       unique; with dashes
    family     the family of mistakes; it decides on the half, with the library of the program
    what       the mistake, one sentence
    seam       the place in PyTorch that is changed
    unreached  programs on which it has no effect
    causes     the causes that name it rightly; empty where the list of causes has no name for it
    is_silent  True for a known silent error: it counts although no loss shows it
    plant      makes the change
    """

    name: str
    family: str
    what: str
    seam: str
    unreached: str
    causes: tuple[Cause, ...]
    is_silent: bool
    plant: Plant


_operators: dict[str, Operator] = {}


def operator(
    family: str, *causes: Cause, seam: str, unreached: str, is_silent: bool = False
) -> Callable[[Plant], Plant]:
    """Register a function as an operator. Its name, with dashes, is the operator's; its docstring is the mistake."""

    def register(plant: Plant) -> Plant:
        name = getattr(plant, "__name__", "").replace("_", "-")
        if family not in FAMILIES:
            raise ValueError(f"{name} is of no family in {', '.join(FAMILIES)}: {family}.")
        if name in _operators:
            raise ValueError(f"There is an operator {name!r} already.")
        what = (inspect.getdoc(plant) or "").partition("\n\n")[0].replace("\n", " ")
        _operators[name] = Operator(name, family, what, seam, unreached, causes, is_silent, plant)
        return plant

    return register


@cache
def all_operators() -> Mapping[str, Operator]:
    """Return every operator by name. Imports every file of `operators`, and PyTorch with them."""
    package = importlib.import_module("benchmarks.mutants.operators")
    for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        importlib.import_module(f"{package.__name__}.{found.name}")
    return dict(sorted(_operators.items(), key=lambda each: (FAMILIES.index(each[1].family), each[0])))
