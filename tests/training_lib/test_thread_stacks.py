"""Stacks of other threads: whole, of a running thread too, and without harm to the process that they are read in."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from tests.warm_python import ROOT
from trackside import thread_stacks
from trackside.thread_stacks import MOST_FRAMES, all_stacks, frames_from, stack_of

# A thread goes deep and returns, over and over. The other reads its stack, and each reading makes enough objects for a
# garbage collection, whose finalizer lets the first thread go on: with `frame.f_back` Python 3.11 ends within a second.
HARM = """
import faulthandler, gc, sys, threading, time
from trackside.thread_stacks import stack_of

faulthandler.dump_traceback_later(50, exit=True)
rounds = 0

class Garbage:
    def __init__(self):
        self.itself = self
    def __del__(self):
        before, end = rounds, time.perf_counter() + 0.005
        while rounds < before + 2 and time.perf_counter() < end:
            time.sleep(0.0001)

def deep(frames):
    if not frames:
        return time.sleep(0.0003)
    return deep(frames - 1)

def train():
    global rounds
    while True:
        rounds += 1
        deep(40 + 37 * rounds % 150)

def plain(thread):
    frame, stack = sys._current_frames().get(thread), []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    return stack

read = {"ours": stack_of, "plain": plain}[sys.argv[1]]
thread = threading.Thread(target=train, daemon=True)
thread.start()
gc.collect()
gc.set_threshold(40)
deepest, end = 0, time.monotonic() + 3
while time.monotonic() < end:
    Garbage()
    deepest = max(deepest, len(read(thread.ident)))
    assert gc.isenabled()
assert deepest > 90, deepest
sys.stdout.write("unharmed")
sys.stdout.flush()
"""


def harm(way: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HARM, way]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)


def test_a_running_thread_is_read_without_harm() -> None:
    done = harm("ours")
    assert (done.returncode, done.stdout) == (0, "unharmed"), done.stderr[-2000:]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="only Python 3.11 is harmed")
def test_the_plain_way_harms() -> None:
    """If this fails, the test above shows nothing any more."""
    assert harm("plain").returncode != 0


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
    """A walk of another thread's frames anywhere else would harm a training on Python 3.11."""
    sources = [
        path for folder in ("training_lib", "lambdas", "rule_containers") for path in (ROOT / folder).rglob("*.py")
    ]
    readers = [path.name for path in sources if "_current_frames" in path.read_text(encoding="utf-8")]
    assert readers == [Path(thread_stacks.__file__).name]
