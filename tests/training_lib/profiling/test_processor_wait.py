"""The time without a processor: against the thread's own processor time, which the kernel counts elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.profiling.processor_wait import PATH, ProcessorWait

pytestmark = pytest.mark.skipif(not os.path.exists(PATH), reason="the kernel has no such counter")

BUSY_SECONDS = 0.1


@pytest.fixture
def rival() -> Iterator[None]:
    """Another process that wants the one processor that this thread may use."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    yield
    other.kill()
    other.communicate()
    os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("rival")
def test_is_the_clock_without_the_processor_time() -> None:
    wait = ProcessorWait()
    assert wait.take() is None
    began, used = time.perf_counter(), time.thread_time()
    while time.thread_time() - used < BUSY_SECONDS:
        pass
    waited = wait.take()
    elapsed, used = time.perf_counter() - began, time.thread_time() - used
    wait.close()
    assert waited is not None
    assert waited > 0.1 * BUSY_SECONDS
    assert waited == pytest.approx(elapsed - used, abs=0.02)


@pytest.mark.usefixtures("rival")
def test_so_far_leaves_the_start_as_it_is() -> None:
    wait = ProcessorWait()
    assert wait.so_far() is None
    wait.take()
    used = time.thread_time()
    while time.thread_time() - used < BUSY_SECONDS:
        pass
    so_far, waited = wait.so_far(), wait.take()
    wait.close()
    assert so_far is not None
    assert waited is not None
    assert 0.1 * BUSY_SECONDS < so_far <= waited
    assert wait.so_far() is None


def test_a_sleep_is_no_wait() -> None:
    wait = ProcessorWait()
    wait.take()
    began = time.perf_counter()
    threading.Event().wait(0.05)
    waited = wait.take()
    wait.close()
    assert waited is not None
    assert waited <= time.perf_counter() - began - 0.05


def test_another_thread_begins_anew() -> None:
    wait = ProcessorWait()
    wait.take()
    found: list[float | None] = []
    thread = threading.Thread(target=lambda: found.extend([wait.take(), wait.take()]))
    thread.start()
    thread.join()
    assert found[0] is None
    assert found[1] is not None
    assert wait.take() is None
    wait.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_begins_anew() -> None:
    wait = ProcessorWait()
    wait.take()
    child = os.fork()
    if child == 0:
        os._exit(0 if wait.take() is None and wait.take() is not None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert wait.take() is not None
    wait.close()


@pytest.mark.parametrize("content", [b"", b"12", b"1 x 3", None], ids=["empty", "short", "no number", "missing"])
def test_is_unknown_without_the_counter(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "schedstat"
    if content is not None:
        path.write_bytes(content)
    wait = ProcessorWait(str(path))
    assert [wait.take(), wait.take(), wait.take()] == [None, None, None]


def test_a_script_that_closes_the_file_is_left_alone() -> None:
    wait = ProcessorWait()
    wait.take()
    os.close(wait._descriptor)
    assert [wait.take(), wait.so_far(), wait.take()] == [None, None, None]
    wait.close()


def test_keeps_one_file_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    wait = ProcessorWait()
    for _ in range(20):
        wait.take()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    wait.close()
    assert len(os.listdir("/proc/self/fd")) == before
