"""The processing jobs that SageMaker has, as this copy of the function knows them.

A training job has several state changes while it runs, and each requests the same processing job again. Remembering
that it exists is cheaper than a call, of which AWS takes one or two a second (docs/scale.md). Another copy of the
function only calls once more. A job of the same name that was created later needs a processing job of its own.
"""

from __future__ import annotations

from trackside.contracts.event import TrainingJob

MOST_NAMES = 10_000  # some 1 MB

_names: dict[tuple[str, int], None] = {}


def is_known(name: str, job: TrainingJob) -> bool:
    """Return True if a processing job of that name was started for `job`, by any copy."""
    return (name, job.created_at) in _names


def note(name: str, job: TrainingJob) -> None:
    """Note that a processing job of that name exists for `job`. Forget the oldest name if the list is full."""
    if len(_names) >= MOST_NAMES:
        del _names[next(iter(_names))]
    _names[name, job.created_at] = None


def forget_all() -> None:
    """Forget all names, as in a new copy of the function."""
    _names.clear()
