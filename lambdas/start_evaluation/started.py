"""The processing jobs that SageMaker has, as this copy of the function knows them.

A training job has several state changes while it runs, and each requests the same processing job again. Remembering
that it exists is cheaper than a call, of which AWS takes one or two a second (docs/scale.md). A name is never free
again, so a remembered one stays valid; another copy of the function only calls once more.
"""

from __future__ import annotations

MOST_NAMES = 10_000  # some 1 MB

_names: dict[str, None] = {}


def is_known(name: str) -> bool:
    """Return True if a processing job of that name was started, by any copy."""
    return name in _names


def note(name: str) -> None:
    """Note that a job of that name exists. Forget the oldest name if the list is full."""
    if len(_names) >= MOST_NAMES:
        del _names[next(iter(_names))]
    _names[name] = None


def forget_all() -> None:
    """Forget all names, as in a new copy of the function."""
    _names.clear()
