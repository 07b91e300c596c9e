"""The loop of a training, as its stacks show it: is the loop waiting for what it loops over?

A DataLoader's fetches are timed. A generator, a data set of another library, or a thread of the script's own has no
such place. But each of them is asked by the loop: by its `for`, or by `next`. Stacks within steps show the loop.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType

from trackside.thread_stacks import Stack

MOST_FUNCTIONS = 200  # that steps were seen in
MOST_CALLS = 64  # of steps, in one function
_NEXT = re.compile(r"\bnext\(")
_GET = re.compile(r"\.get(_nowait)?\([^()]*\)$")  # of a queue that is not written in Python: no other takes time


class StepLoop:
    """The functions from which steps are taken, and the instructions in them that do it. Holds no frame.

    Args:
        is_user_file: Returns True for a file of the user's.
    """

    def __init__(self, *, is_user_file: Callable[[str], bool]) -> None:
        self._is_user_file = is_user_file
        self._calls: dict[CodeType, set[int]] = {}

    def note(self, stack: Stack) -> None:
        """Note the stack of a thread that is within a step.

        Args:
            stack: Its frames, innermost first.
        """
        for frame in stack:
            code = frame.f_code
            calls = self._calls.get(code)
            if calls is None and len(self._calls) < MOST_FUNCTIONS and self._is_user_file(code.co_filename):
                calls = self._calls[code] = set()
            if calls is not None and len(calls) < MOST_CALLS:
                calls.add(frame.f_lasti)

    def is_fetching(self, stack: Stack) -> bool:
        """Return True if the loop waits for its next batch: its `for` asks for one, or its `next(...)` does.

        Args:
            stack: The frames of the thread, innermost first, in no phase of a step.
        """
        for frame, callee in zip(stack, [None, *stack], strict=False):
            calls = self._calls.get(frame.f_code)
            if calls is None:
                continue
            end = _ends_of_loops(frame.f_code).get(frame.f_lasti, 0)
            if end:
                return any(frame.f_lasti < call < end for call in calls)
            if callee is None:
                return bool(_GET.search(_called(frame)))
            return callee is not None and _is_iterator(callee.f_code) and bool(_NEXT.search(_text(frame)))
        return False


@lru_cache(MOST_FUNCTIONS)
def _ends_of_loops(code: CodeType) -> Mapping[int, int]:
    """Return the end of each `for` of a function, by the instruction that asks for its next item."""
    return {one.offset: int(one.argval) for one in dis.get_instructions(code) if one.opname == "FOR_ITER"}


def _is_iterator(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_GENERATOR) or code.co_name == "__next__"


def _called(frame: FrameType) -> str:
    """Return the text of the call that a frame is in; "" if it is not on one line, or Python (3.10) lacks it."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return ""
    first, last, start, end = next(islice(positions(), frame.f_lasti // 2, None), (None, None, None, None))
    if first is None or first != last or start is None or end is None:
        return ""
    line = linecache.getline(frame.f_code.co_filename, first)
    return line.encode()[start:end].decode(errors="replace")  # columns are of bytes


def _text(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0)
