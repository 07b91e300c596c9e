"""Stacks of other threads, read so that no thread is hurt by it.

Python 3.11 makes the objects of frames when they are asked for. Making one may start a garbage collection, and what it
frees may let the other thread go on: its functions return, their frames are memory that something else uses by now (a
segmentation fault), or the lock on the list of threads is held meanwhile (a deadlock; python/cpython#106883). Python
3.10 has the objects already, and from 3.12 on no collection starts while memory is handed out.
"""

from __future__ import annotations

import gc
import operator
import sys
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat, takewhile
from types import FrameType
from typing import Any, TypeVar

MOST_FRAMES = 200
Stack = list[FrameType]  # innermost first
_T = TypeVar("_T")
_call: Callable[..., Any] = getattr(operator, "call", operator.not_)  # Python 3.10 has none, and asks none
_CALLER: Callable[..., Any] = getattr  # with a default: the outermost frame has none
_COLLECTS_IN_BETWEEN = sys.version_info[:2] == (3, 11)
# 3.11.0 shows frames that it is clearing (python/cpython#99729).
# Python without its lock lets the other thread go on at any time (#152355).
_IS_SAFE = sys.version_info[:3] != (3, 11, 0) and getattr(sys, "_is_gil_enabled", lambda: True)()


def stack_of(thread: int) -> Stack:
    """Return the frames of a thread, innermost first; none if it has ended, or if this Python has no safe way.

    Args:
        thread: The `ident` of the thread.
    """
    return frames_from(innermost_of(thread))


def innermost_of(thread: int) -> FrameType | None:
    """Return the innermost frame of a thread; None if it has ended, or if this Python has no safe way.

    Args:
        thread: The `ident` of the thread.
    """
    return _innermost().get(thread)


def all_stacks() -> dict[int, Stack]:
    """Return the stacks of all other threads by their `ident`; none if this Python has no safe way.

    A frame keeps its variables. That of a caller would hold itself in what is returned here, and all others with it
    until garbage is collected; so the calling thread is left out.
    """
    innermost = _innermost()
    innermost.pop(get_ident(), None)
    return {thread: frames_from(frame) for thread, frame in innermost.items()}


def frames_from(frame: FrameType | None) -> Stack:
    """Return a frame and its callers, at most `MOST_FRAMES`; nothing for None."""
    stack = [frame] if frame is not None else []
    callers: Iterator[Any] = map(_CALLER, stack, repeat("f_back"), repeat(None, MOST_FRAMES - 1))  # of each as it comes
    _undisturbed(partial(stack.extend, takewhile(partial(operator.is_not, None), callers)))
    return stack


def line_of(frame: FrameType) -> int:
    """Return the line of a frame; the first of its function where Python has none, as between two statements.

    Args:
        frame: The frame, which may be of a running thread.
    """
    return frame.f_lineno or frame.f_code.co_firstlineno


def _innermost() -> dict[int, FrameType]:
    return _undisturbed(sys._current_frames) if _IS_SAFE else {}


def _undisturbed(call: Callable[[], _T]) -> _T:
    """Call a function that is not written in Python, and let no other thread run meanwhile, nor a garbage collection.

    Threads take turns between instructions of Python, and this is one: collection is off only within it. So a thread
    that looks finds it as it was, and one that switches it is not overruled.
    """
    if not _COLLECTS_IN_BETWEEN:
        return call()
    returned: list[_T] = []
    was_on: list[bool] = []
    steps: tuple[Callable[[], object], ...] = (
        partial(was_on.extend, map(_call, (gc.isenabled,))),
        gc.disable,
        partial(returned.extend, map(_call, (call,))),
    )
    last = map(operator.getitem, repeat((bool, gc.enable)), was_on)  # `bool` does nothing
    try:
        deque(map(_call, chain(steps, last)), maxlen=0)
    except MemoryError:
        if was_on == [True]:
            gc.enable()
        raise
    return returned.pop()  # nothing is left in this frame, which may be among the frames that were found
