"""The error tree. Every error names the problem, the place, and a cure.

TracksideError
├── ConfigurationError (ValueError)      a request cannot be carried out; lists every problem at once
│   └── RunTakenError                    another process writes this run
├── StorageError (OSError)               bytes could not be stored or fetched
│   ├── KeyNotFoundError                 no object of that key
│   │   └── NotAFileError                the key is not a regular file: a link that leads out, a folder, a pipe
│   ├── LocationNotFoundError            no such bucket or folder
│   ├── AccessDeniedError                no permission
│   └── StorageUnavailableError          an outage: trying again may help
├── RecordError (ValueError)             a file has wrong content: names the file and the byte offset
├── RunNotFoundError (LookupError)       no run at this location
├── TensorNotSavedError (LookupError)    this tensor was not saved at this step by this worker
└── RuleEvaluationError                  a rule crashed; carries the rule and the step
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One mistake in a configuration.

    where  its place
    what   the mistake
    fix    a value or a step that would work; "" if unknown
    """

    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f" {self.fix}" if self.fix else "")


class TracksideError(Exception):
    """Any error that Trackside raises on purpose.

    advice  the cure, if the raising code can name it best; "" otherwise
    """

    def __init__(self, *args: object, advice: str = "") -> None:
        super().__init__(*args)
        self.advice = advice


class ConfigurationError(TracksideError, ValueError):
    """A request cannot be carried out. Lists every problem, not only the first."""

    def __init__(self, problems: Sequence[Problem], *, subject: str = "The configuration") -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{subject} has {count} problem{'s' if count != 1 else ''}:", *(f"  - {p}" for p in self.problems)]
        super().__init__("\n".join(lines))


class RunTakenError(ConfigurationError):
    """Another living process writes the run as the same worker.

    process  its number; "?" if unknown
    """

    def __init__(self, problems: Sequence[Problem], *, subject: str, process: str) -> None:
        super().__init__(problems, subject=subject)
        self.process = process


class StorageError(TracksideError, OSError):
    """Bytes could not be stored or fetched."""


class KeyNotFoundError(StorageError):
    """The store has no object of that key."""


class NotAFileError(KeyNotFoundError):
    """The key exists but is not a regular file inside the store.

    It is a link that leads out of the location or nowhere, a folder, or a pipe.
    """


class LocationNotFoundError(StorageError):
    """The bucket or folder does not exist."""


class AccessDeniedError(StorageError):
    """The store refused the request for lack of permission."""


class StorageUnavailableError(StorageError):
    """The store is unavailable or answered wrongly; trying again may help."""


class RecordError(TracksideError, ValueError):
    """A file does not have the content that its name promises.

    key     the file
    offset  the byte of the fault
    what    the fault
    """

    def __init__(self, key: str, offset: int, what: str) -> None:
        self.key, self.offset, self.what = key, offset, what
        super().__init__(f"{key}, byte {offset}: {what}")


class RunNotFoundError(TracksideError, LookupError):
    """The location holds no run."""


class TensorNotSavedError(TracksideError, LookupError):
    """This tensor was not saved at this step by this worker."""


class RuleEvaluationError(TracksideError):
    """A rule crashed while it judged a step."""


_FEWEST_LETTERS = 3  # of a beginning that names what was meant


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return `Did you mean 'x'?` for the nearest known name, else the list of all known names.

    Args:
        wrong: The misspelled name.
        known: The names that would work; if empty, "" is returned.
    """
    names = sorted(known)
    near = (
        difflib.get_close_matches(wrong.lower().replace("_", "-"), names, n=1)
        or difflib.get_close_matches(wrong, names, n=1)
        or [name for name in names if len(wrong) >= _FEWEST_LETTERS and name.lower().startswith(wrong.lower())]
    )
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names)}." if names else ""
