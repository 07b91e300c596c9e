"""The time of collections of garbage: those of the training's thread and of the oldest generation, with their line."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from itertools import count
from threading import get_ident

import pytest

from trackside.profiling.garbage_watch import Collections, GarbageWatch
from trackside.profiling.phase_clock import PhaseClock


@pytest.fixture
def clock() -> PhaseClock:
    clock = PhaseClock()
    clock.thread, clock.steps = get_ident(), 13
    return clock


@pytest.fixture
def watch(clock: PhaseClock) -> Iterator[GarbageWatch]:
    """A watch whose clock goes on by a second at each look."""
    seconds = count(1)
    gc.disable()
    watch = GarbageWatch(clock, is_user_file=lambda file: file == __file__, read=lambda: float(next(seconds)))
    watch.start()
    yield watch
    watch.stop()
    gc.enable()


def test_times_collections_and_names_the_line(watch: GarbageWatch) -> None:
    assert watch.so_far() is None
    gc.collect()
    gc.collect()
    line = test_times_collections_and_names_the_line.__code__.co_firstlineno + 3
    function = "test_times_collections_and_names_the_line"
    assert watch.so_far() == Collections(2, 2.0, 1.0, 10, __file__, line, function)


def a_young_one(clock: PhaseClock) -> None:
    gc.collect(1)


def of_another_thread(clock: PhaseClock) -> None:
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()


def in_the_first_steps(clock: PhaseClock) -> None:
    clock.steps = 2
    gc.collect()
    clock.steps = 13


@pytest.mark.parametrize("collect", [a_young_one, of_another_thread, in_the_first_steps])
def test_others_do_not_count(clock: PhaseClock, watch: GarbageWatch, collect: Callable[[PhaseClock], None]) -> None:
    collect(clock)
    assert watch.so_far() is None


def test_a_second_stop_does_nothing(watch: GarbageWatch) -> None:
    watch.stop()
    watch.stop()
    gc.collect()
    assert watch.so_far() is None
