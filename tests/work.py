"""Counts the work of Python code in bytecodes: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import trackside
from trackside.contracts.run_layout import worker_name

_FOLDER = trackside.__path__[0]


def bytecodes(work: Callable[[], object]) -> int:
    """Return how many bytecodes of Trackside's own files `work` runs in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(_FOLDER):
            return None
        count += event == "opcode"
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace

    before = sys.gettrace()
    for traced in (lambda: worker_name(0), work):  # from Python 3.12 on opcodes come only once a frame has wanted them
        count = 0
        sys.settrace(trace)
        try:
            traced()
        finally:
            sys.settrace(before)
    return count
