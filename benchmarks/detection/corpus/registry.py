"""How programs come into the corpus: `recipe` and `script` register a training, `plant` a fault in a recipe."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.detection.corpus.program import Fault, Program, Trained
from benchmarks.detection.corpus.supervised import Recipe, fit
from trackside.contracts.cause import Cause

Edit = Callable[[Recipe], Recipe]


@dataclass(frozen=True)
class _Planted:
    fault: Fault
    edit: Edit


_programs: dict[str, Program] = {}
_recipes: dict[str, Callable[[], Recipe]] = {}
_planted: dict[str, dict[str, _Planted]] = {}


def registered() -> dict[str, Program]:
    """All programs whose files have been imported, by name."""
    return {
        name: replace(program, faults=program.faults + tuple(one.fault for one in _planted.get(name, {}).values()))
        for name, program in sorted(_programs.items())
    }


def recipe(
    split: str, data: str, model: str, *, at_least: float, chance: float = 0.0, odd: str = ""
) -> Callable[[Callable[[], Recipe]], Callable[[], Recipe]]:
    """Registers a function that returns a recipe; its name is the program's, its docstring what is said of it."""

    def register(function: Callable[[], Recipe]) -> Callable[[], Recipe]:
        name = _name(function)

        def train(seed: int, fault: str) -> Trained:
            chosen = function()
            return fit(_planted[name][fault].edit(chosen) if fault else chosen, seed)

        _add(function, Program(name, train, split, data, model, _summary(function), at_least, chance, odd))
        _recipes[name] = function
        return function

    return register


def script(
    split: str,
    data: str,
    model: str,
    *,
    at_least: float,
    chance: float = 0.0,
    odd: str = "",
    faults: tuple[Fault, ...] = (),
) -> Callable[[Callable[[int, str], Trained]], Callable[[int, str], Trained]]:
    """Registers a training that has a loop of its own, and plants its `faults` itself."""

    def register(train: Callable[[int, str], Trained]) -> Callable[[int, str], Trained]:
        _add(train, Program(_name(train), train, split, data, model, _summary(train), at_least, chance, odd, faults))
        return train

    return register


def plant(
    kind: str,
    program: str,
    edit: Edit,
    what: str,
    *,
    begins: int | None = 0,
    layers: tuple[str, ...] = (),
    name: str = "",
    causes: tuple[Cause, ...] = (),
) -> None:
    """Plants a fault in a recipe; the arguments are those of `Fault`."""
    fault = Fault(kind, what, begins, layers, name, causes)
    if program not in _recipes:
        raise KeyError(f"There is no recipe {program!r} to plant {fault.name!r} in.")
    if fault.name in _planted.setdefault(program, {}):
        raise ValueError(f"{program} has a fault {fault.name!r} already.")
    _planted[program][fault.name] = _Planted(fault, edit)


def _add(function: Callable[..., object], program: Program) -> None:
    if program.name in _programs:
        raise ValueError(f"There is a program {program.name!r} already.")
    _programs[program.name] = replace(program, module=function.__module__)


def _name(function: Callable[..., object]) -> str:
    return function.__name__.replace("_", "-")


def _summary(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").split("\n", 1)[0]
