"""Functions of a library that are replaced by ours until they are put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from trackside.frameworks.adapter import Undo


def replace(places: Iterable[tuple[Any, str]], wrapped: Callable[[Any], Any]) -> Undo:
    """Replace attributes of modules or classes. Return the function that puts them back where ours still stand.

    Args:
        places: Each owner with the name of its attribute.
        wrapped: Returns the replacement of a function.
    """
    done = []
    for owner, name in places:
        original = vars(owner)[name]
        ours = wrapped(original)
        setattr(owner, name, ours)
        done.append((owner, name, original, ours))

    def undo() -> None:
        for owner, name, original, ours in done:
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)

    return undo
