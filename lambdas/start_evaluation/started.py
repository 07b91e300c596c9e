"""Which processing jobs SageMaker has, as this copy of the function learned by asking for them.

A training job tells several states while it runs, each of which asks for the same processing job again. That it is
there is cheaper to remember than to be told by a call of which AWS takes one or two a second (docs/scale.md). A name is
never free again, so what is remembered stays true; another copy of the function only asks once more.
"""

from __future__ import annotations

MOST_NAMES = 10_000  # some 1 MB

_names: dict[str, None] = {}


def is_known(name: str) -> bool:
    """True if a processing job of that name was started, by whomever."""
    return name in _names


def note(name: str) -> None:
    """There is one of that name. The oldest is forgotten when there are too many."""
    if len(_names) >= MOST_NAMES:
        del _names[next(iter(_names))]
    _names[name] = None


def forget_all() -> None:
    """As in a new copy of the function."""
    _names.clear()
