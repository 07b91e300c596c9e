"""Stacks of other threads: whole, and read with nothing in between that could harm the process."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from tests.patience import HANGS_SECONDS
from tests.warm_python import ROOT
from trackside import thread_stacks
from trackside.thread_stacks import MOST_FRAMES, all_stacks, frames_from, stack_of


class Frame:
    """A frame that is made when it is asked for, with garbage enough for a collection."""

    def __init__(self, callers: int, seen: list[bool]) -> None:
        self.callers, self.seen = callers, seen

    @property
    def f_back(self) -> Frame | None:
        self.seen.append(gc.isenabled())
        for _ in range(50):
            garbage: list[object] = []
            garbage.append(garbage)
        return Frame(self.callers - 1, self.seen) if self.callers else None


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Stacks are read as on Python 3.11, and garbage is collected all the time; the phases of each collection."""
    monkeypatch.setattr(thread_stacks, "_COLLECTS_IN_BETWEEN", True)
    monkeypatch.setattr(thread_stacks, "_call", lambda call: call())  # Python 3.10 has no `operator.call`
    phases: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        phases.append(phase)

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(10)
    yield phases
    gc.set_threshold(*before)
    gc.callbacks.remove(note)


def test_no_garbage_is_collected_while_a_stack_is_read(collections: list[str]) -> None:
    """A finalizer would let the other thread go on, and on Python 3.11 its frames are then no longer there."""
    seen: list[bool] = []
    frame = Frame(30, seen)
    collections.clear()
    stack = frames_from(cast("FrameType", frame))
    assert (len(stack), seen) == (31, [False] * 31)
    assert gc.isenabled()


def test_no_garbage_is_collected_while_threads_are_listed(
    collections: list[str], monkeypatch: pytest.MonkeyPatch, waiting: Waiting
) -> None:
    current, seen = sys._current_frames, list[bool]()

    def listed() -> dict[int, FrameType]:
        seen.append(gc.isenabled())
        return current()

    monkeypatch.setattr(sys, "_current_frames", listed)
    assert waiting.ident in all_stacks()
    assert stack_of(waiting.ident)
    assert seen == [False, False]


def test_no_instruction_of_python_sees_collection_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take turns between instructions: so none runs while a stack is read, and none finds collection off."""
    monkeypatch.setattr(thread_stacks, "_COLLECTS_IN_BETWEEN", True)
    seen: list[bool] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen.append(gc.isenabled())
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        stack = frames_from(sys._getframe())
    finally:
        sys.settrace(before)
    assert len(stack) > 10
    assert len(seen) > 50
    assert all(seen)


class Waiting:
    """A thread that stands still in a function."""

    def __init__(self) -> None:
        self.up, self.may_end = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.outer)
        self.thread.start()
        assert self.up.wait(HANGS_SECONDS)
        self.ident = self.thread.ident or 0

    def outer(self) -> None:
        self.inner()

    def inner(self) -> None:
        self.up.set()
        self.may_end.wait(HANGS_SECONDS)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    one = Waiting()
    yield one
    one.may_end.set()
    one.thread.join(HANGS_SECONDS)


def names(stack: thread_stacks.Stack) -> list[str]:
    return [frame.f_code.co_name for frame in stack]


def test_the_stack_of_a_thread_is_whole_and_innermost_first(waiting: Waiting) -> None:
    while names(stack_of(waiting.ident))[0] not in {"wait", "__enter__"}:
        pass
    found = names(stack_of(waiting.ident))
    start = found.index("inner")
    assert found[start : start + 2] == ["inner", "outer"]
    assert found[-1] == "_bootstrap"


def test_all_stacks_are_those_of_each_thread(waiting: Waiting) -> None:
    found = all_stacks()
    assert waiting.ident in found
    assert threading.get_ident() not in found
    assert "inner" in names(found[waiting.ident])


class Held:
    """What a function of the training holds."""


@pytest.mark.parametrize("read", [stack_of, lambda _: all_stacks()], ids=["one", "all"])
def test_what_a_frame_holds_is_not_kept_alive(read: Callable[[int], object]) -> None:
    """Without a garbage collection: tensors and workers of loaders must go when their function returns."""
    up, may_end, seen = threading.Event(), threading.Event(), []

    def train() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        up.set()
        may_end.wait(HANGS_SECONDS)

    def look() -> None:  # in a function: what is read must be gone when it returns
        for _ in range(3):
            assert read(thread.ident or 0)

    gc.collect()
    gc.disable()
    try:
        thread = threading.Thread(target=train)
        thread.start()
        assert up.wait(HANGS_SECONDS)
        look()
        may_end.set()
        thread.join(HANGS_SECONDS)
        assert seen[0]() is None
    finally:
        gc.enable()


def test_an_ended_thread_has_no_stack(waiting: Waiting) -> None:
    waiting.may_end.set()
    waiting.thread.join(HANGS_SECONDS)
    assert stack_of(waiting.ident) == []


def test_frames_are_those_that_python_tells() -> None:
    told = [frame for frame, _ in traceback.walk_stack(sys._getframe())]
    assert frames_from(sys._getframe()) == told[:MOST_FRAMES]
    assert frames_from(None) == []


def test_a_deep_stack_is_cut() -> None:
    def deep(left: int) -> thread_stacks.Stack:
        return deep(left - 1) if left else frames_from(sys._getframe())

    assert len(deep(MOST_FRAMES + 10)) == MOST_FRAMES


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_collection_is_afterwards_as_it_was(is_on: bool, waiting: Waiting) -> None:
    (gc.enable if is_on else gc.disable)()
    try:
        assert stack_of(waiting.ident)
        assert gc.isenabled() is is_on
    finally:
        gc.enable()


def test_a_python_that_cannot_tell_them_safely_tells_none(monkeypatch: pytest.MonkeyPatch, waiting: Waiting) -> None:
    monkeypatch.setattr(thread_stacks, "_IS_SAFE", False)
    assert stack_of(waiting.ident) == []
    assert all_stacks() == {}


def test_nothing_else_reads_the_stacks_of_threads() -> None:
    """A walk of another thread's frames anywhere else may end a training on Python 3.11 (python/cpython#106883)."""
    sources = [
        path for folder in ("training_lib", "lambdas", "rule_containers") for path in (ROOT / folder).rglob("*.py")
    ]
    readers = [path.name for path in sources if "_current_frames" in path.read_text(encoding="utf-8")]
    assert readers == [Path(thread_stacks.__file__).name]
