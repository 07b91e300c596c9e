"""The closure among the arguments of an optimizer's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def closure_of(args: Any, kwargs: Any) -> Callable[..., Any] | None:
    """Return the closure among the arguments of `step`; None without one."""
    closure = kwargs.get("closure") if "closure" in kwargs else (args[1] if len(args) > 1 else None)
    return closure if callable(closure) else None


def with_closure(closure: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of `step` with this closure in place of theirs."""
    if "closure" in kwargs:
        return args, {**kwargs, "closure": closure}
    return (args[0], closure, *args[2:]), kwargs
