"""The account's background work: tasks that run now or after a delay, and that all end when the account closes."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_logger = logging.getLogger(__name__)


class Background:
    """A pool of threads and one timer thread that feeds it. Nothing polls."""

    def __init__(self, *, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="local-account")
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._changed = threading.Condition()
        self._is_closed = False
        self._timer = threading.Thread(target=self._keep_time, name="local-account-timer", daemon=True)
        self._timer.start()

    def run(self, task: Callable[[], None], *, after_seconds: float = 0.0) -> None:
        """Run the task on another thread. After `close` it does nothing."""
        with self._changed:
            if self._is_closed:
                return
            if after_seconds > 0:
                heapq.heappush(self._due, (time.monotonic() + after_seconds, next(self._number), task))
                self._changed.notify()
                return
            self._start(task)

    def close(self) -> None:
        """Forget what is not yet due, and wait for what is running."""
        with self._changed:
            self._is_closed = True
            self._due.clear()
            self._changed.notify()
        self._timer.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _start(self, task: Callable[[], None]) -> None:
        self._pool.submit(task).add_done_callback(_report)

    def _keep_time(self) -> None:
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                while self._due and self._due[0][0] <= now:
                    self._start(heapq.heappop(self._due)[2])
                self._changed.wait(self._due[0][0] - now if self._due else None)


def _report(done: Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _logger.error("A task of the local account failed", exc_info=error)
