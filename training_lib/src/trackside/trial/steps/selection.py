"""A selection of a run's steps, modes and workers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.name_pattern import NamePattern, name_pattern, problem_of
from trackside.records.modes import MODE_NUMBERS
from trackside.trial.steps.saved_step import SavedStep

_STEPS = re.compile(r"(?P<first>[0-9]*)(?P<range>:(?P<end>[0-9]*)(:(?P<stride>[0-9]+))?)?")


@dataclass(frozen=True)
class StepRange:
    """Steps `first`, `first + stride`, ... below `end`, like Python's `range`. `end` None means without end."""

    first: int = 0
    end: int | None = None
    stride: int = 1

    def __post_init__(self) -> None:
        if self.first < 0 or self.stride < 1 or (self.end is not None and self.end < 0):
            raise _no_steps(f"{self.first}:{'' if self.end is None else self.end}:{self.stride}")

    def __contains__(self, step: int) -> bool:
        return step >= self.first and (self.end is None or step < self.end) and (step - self.first) % self.stride == 0

    @classmethod
    def of(cls, steps: StepRange | slice | range | int | str | None) -> StepRange:
        """Return the range for `slice(10, 200, 10)`, `range(10, 200, 10)` or `"10:200:10"`.

        20 and "20" mean that step alone, None all steps.

        Errors: `ConfigurationError` for anything else, including negative numbers: steps count from 0.
        """
        if isinstance(steps, StepRange):
            return steps
        if steps is None:
            return cls()
        if isinstance(steps, str):
            return cls._parse(steps)
        if isinstance(steps, int) and not isinstance(steps, bool):
            return cls(steps, steps + 1)
        if isinstance(steps, (slice, range)):
            return cls(steps.start or 0, steps.stop, 1 if steps.step is None else steps.step)
        raise _no_steps(repr(steps))

    @classmethod
    def _parse(cls, text: str) -> StepRange:
        match = _STEPS.fullmatch(text.strip())
        if match is None or not text.strip():
            raise _no_steps(repr(text))
        first = int(match["first"] or 0)
        if match["range"] is None:
            return cls(first, first + 1)
        return cls(first, int(match["end"]) if match["end"] else None, int(match["stride"] or 1))


@dataclass(frozen=True)
class Selection:
    """A part of a run. `mode` None means every mode, `worker` None every worker."""

    steps: StepRange = StepRange()
    mode: str | None = None
    worker: str | None = None

    def covers(self, saved: SavedStep) -> bool:
        """Return True if the saved step belongs to the selection."""
        return (
            saved.step in self.steps
            and (self.mode is None or saved.mode == self.mode)
            and (self.worker is None or saved.worker == self.worker)
        )


def parse_mode(mode: str | None) -> str | None:
    """Return the mode in capitals: `train` -> `TRAIN`. Errors: `ConfigurationError` with the known modes."""
    if mode is None or mode.upper() in MODE_NUMBERS:
        return mode.upper() if mode else None
    problem = Problem("mode", f"{mode!r} is no mode.", f"Modes: {', '.join(MODE_NUMBERS)}.")
    raise ConfigurationError([problem], subject="The selection")


def parse_regex(regex: str) -> NamePattern:
    """Return the compiled pattern. Errors: `ConfigurationError` with the mistake and its place."""
    try:
        return name_pattern(regex)
    except re.error as error:
        problem = Problem("regex", f"{regex!r} {problem_of(error)}.", "A plain name needs no escapes.")
        raise ConfigurationError([problem], subject="The selection") from error


def _no_steps(what: str) -> ConfigurationError:
    fix = "Steps count from 0. Write 20, 10:200 or 10:200:10 (the end is left out, the last number is the stride)."
    return ConfigurationError([Problem("steps", f"{what} names no steps.", fix)], subject="The selection")
