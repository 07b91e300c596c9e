"""Functions of a library that are replaced by ours until they are put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trackside.frameworks.shared.adapter import StepHook, Undo


def replace(places: Iterable[tuple[Any, str]], wrapped: Callable[[Any], Any]) -> Undo:
    """Replace attributes of modules or classes. Return the function that puts them back where ours still stand.

    Args:
        places: Each owner with the name of its attribute.
        wrapped: Returns the replacement of a function.
    """
    done = [ReplacedFunction(owner, name, wrapped) for owner, name in places]
    for one in done:
        one.put_in()

    def undo() -> None:
        for one in done:
            one.take_out()

    return undo


class ReplacedFunction:
    """An attribute of a module or class that holds ours in the place of the library's own, while it is put in.

    Args:
        owner: The module or class.
        name: The attribute.
        wrapped: Returns ours, of the function that it calls.
    """

    def __init__(self, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
        self._owner, self._name, self._wrapped = owner, name, wrapped
        self._original = self._ours = _NOTHING
        self._is_buried = False

    def put_in(self) -> None:
        """Put ours in; see `StepHook`."""
        found = self._found()
        if found is self._ours or self._is_buried:
            return
        if found is not self._original:
            self._original, self._ours = found, self._wrapped(found)
        setattr(self._owner, self._name, self._ours)

    def take_out(self) -> bool:
        """Put the library's own back where ours stands; see `StepHook`."""
        found = self._found()
        if found is self._ours:
            setattr(self._owner, self._name, self._original)
        self._is_buried = found is not self._ours and found is not self._original
        return not self._is_buried

    def _found(self) -> Any:
        # Not `vars`: a module that is loaded on its first use has an attribute look-up of its own.
        return object.__getattribute__(self._owner, "__dict__")[self._name]


class StepHooks:
    """All hooks of an adapter that each step meets. They are put in, and taken out, together.

    Args:
        hooks: In the order in which they are put in.
    """

    def __init__(self, hooks: Sequence[StepHook]) -> None:
        self._hooks = tuple(hooks)

    def put_in(self) -> None:
        """Put all in."""
        for hook in self._hooks:
            hook.put_in()

    def take_out(self) -> bool:
        """Take all out, the latest first. Return False if one stays."""
        are_out = [hook.take_out() for hook in reversed(self._hooks)]  # each, also after one that stays
        return all(are_out)


_NOTHING: Any = object()
