"""The error tree. Every error says what is wrong, where, and what would work.

TracksideError
├── ConfigurationError (ValueError)      what was asked for cannot be done; every problem is listed at once
├── StorageError (OSError)               bytes could not be stored or fetched
│   ├── KeyNotFoundError                 no object of that key
│   │   └── NotAFileError                something else bears it: a link that leads out, a folder, a pipe
│   ├── LocationNotFoundError            no such bucket or folder
│   ├── AccessDeniedError                no permission
│   └── StorageUnavailableError          an outage: trying again may help
├── RecordError (ValueError)             a file is not what its name says: names the file and the byte offset
├── RunNotFoundError (LookupError)       nothing that looks like a run lies there
├── TensorNotSavedError (LookupError)    this tensor was not saved at this step by this worker
└── RuleEvaluationError                  a rule crashed; carries the rule and the step
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a configuration: where it stands, what is wrong, what would work."""

    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f" {self.fix}" if self.fix else "")


class TracksideError(Exception):
    """Any error that Trackside raises on purpose. `advice`: what would work, where who raises it knows best."""

    def __init__(self, *args: object, advice: str = "") -> None:
        super().__init__(*args)
        self.advice = advice


class ConfigurationError(TracksideError, ValueError):
    """What was asked for cannot be done. Lists every problem, not only the first."""

    def __init__(self, problems: Sequence[Problem], *, subject: str = "The configuration") -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{subject} has {count} problem{'s' if count != 1 else ''}:", *(f"  - {p}" for p in self.problems)]
        super().__init__("\n".join(lines))


class StorageError(TracksideError, OSError):
    """Bytes could not be stored or fetched."""


class KeyNotFoundError(StorageError):
    """No object of that key lies in the store."""


class NotAFileError(KeyNotFoundError):
    """What bears the key is no file of this location: a link that leads out of it or nowhere, a folder, a pipe."""


class LocationNotFoundError(StorageError):
    """No such bucket or folder."""


class AccessDeniedError(StorageError):
    """The store refused for want of permission."""


class StorageUnavailableError(StorageError):
    """The store did not answer as it should; trying again may help."""


class RecordError(TracksideError, ValueError):
    """A file is not what its name says."""

    def __init__(self, key: str, offset: int, what: str) -> None:
        self.key, self.offset, self.what = key, offset, what
        super().__init__(f"{key}, byte {offset}: {what}")


class RunNotFoundError(TracksideError, LookupError):
    """Nothing that looks like a run lies at this location."""


class TensorNotSavedError(TracksideError, LookupError):
    """This tensor was not saved at this step by this worker."""


class RuleEvaluationError(TracksideError):
    """A rule crashed while it judged a step."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """`Did you mean 'x'?` for the nearest known name, else the list of all known names."""
    names = sorted(known)
    near = difflib.get_close_matches(wrong.lower().replace("_", "-"), names, n=1) or difflib.get_close_matches(
        wrong, names, n=1
    )
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names)}." if names else ""
