"""A thread for one rule, so that nothing else waits for it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trackside.evaluation.results.judging import Judgement
from trackside.evaluation.results.progress import RuleProgress
from trackside.thread_stacks import stack_of

MOST_TASKS = 2000  # queued at once, about 1 KB each: as many as a quick rule judges between two polls
_IDLE_SECONDS = 5.0  # after which a thread with nothing to do ends; it is started again


@dataclass(frozen=True)
class JudgingTask:
    """One step for a rule to judge.

    step     the step
    through  the newest step that the rule has judged after this task
    judge    judges the step, given the rule's progress; errors: `StorageError`
    """

    step: int
    through: int
    judge: Callable[[RuleProgress], Judgement]


@dataclass(frozen=True)
class Failure:
    """A step that was not judged, with its error.

    The error is a `StorageError`, or an exception that ends a thread, such as `SystemExit`.
    """

    step: int
    error: BaseException


@dataclass(frozen=True)
class Stuck:
    """The step that a rule is at, and the number of seconds it has spent on it."""

    step: int
    seconds: float


class RuleThread:
    """Judges steps by one rule in a thread. Each step starts from the progress of the judgement before.

    The evaluator's thread calls the methods; only `wait` waits for the rule. The rule's thread enters `reading`. The
    thread is a daemon: a rule that never returns does not keep the process alive.

    name      the configuration, for the thread's name
    progress  the rule's progress so far
    file      the rule's source file, as in its frames; "" if unknown
    end       ends the process in which the rule's code runs; None if it runs in the thread
    """

    def __init__(
        self, name: str, progress: RuleProgress, *, file: str = "", end: Callable[[], object] | None = None
    ) -> None:
        self._name, self._file, self._end = name, file, end
        self._changed = threading.Condition()
        self._tasks: deque[JudgingTask] = deque()
        self._judgements: list[Judgement] = []
        self._failure: Failure | None = None
        self._progress = progress
        self._thread: threading.Thread | None = None
        self._step: int | None = None  # that the rule is at
        self._began = 0.0
        self.reading = _Reading()
        self._is_abandoned = False
        self.queued_through = progress.judged_through

    @property
    def free_slots(self) -> int:
        """The number of tasks that fit into the queue now."""
        return MOST_TASKS - len(self._tasks)

    @property
    def is_idle(self) -> bool:
        """True if no task is left."""
        return not self._tasks and self._step is None

    def submit(self, task: JudgingTask) -> None:
        """Queue a task; `take` returns its judgement. Ignored after a failure, and once the rule has concluded."""
        with self._changed:
            if self._failure is not None or self._progress.has_concluded:
                return
            self.queued_through = task.through
            self._tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"rule {self._name}", daemon=True)
                self._thread.start()
            else:
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until no task is left, at most `seconds`. Return True if none is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_idle, seconds)

    def take(self) -> tuple[list[Judgement], Failure | None]:
        """Return the new judgements in order, and the failure after them, if any. After a failure call `start_over`."""
        with self._changed:
            judgements, self._judgements = self._judgements, []
            return judgements, self._failure

    def start_over(self, progress: RuleProgress) -> None:
        """Drop the queued tasks and continue from `progress`. The caller queues them again."""
        with self._changed:
            self._tasks.clear()
            self._failure = None
            self._progress, self.queued_through = progress, progress.judged_through

    @property
    def stuck(self) -> Stuck | None:
        """The rule's present step and the time spent on it; None if idle.

        Time spent waiting to read the run does not count.
        """
        with self._changed:
            if self._step is None:
                return None
            return Stuck(self._step, (self.reading.since or time.monotonic()) - self._began - self.reading.seconds)

    def abandon(self) -> bool:
        """Drop further judgements and end the rule if possible. Return True once the thread has ended.

        A rule with a process ends with it. A thread cannot be ended from outside, but an exception can be raised in it.
        This is done only if the innermost frame is in the rule's own file: elsewhere the thread may hold a lock that
        others need, for example that of `logging`. A thread in a system call stays, and costs nothing; a loop in C
        stays too.
        """
        with self._changed:
            self._is_abandoned = True
            self._tasks.clear()
            self._changed.notify_all()
        if self._end is not None:
            self._end()
        thread = self._thread
        if thread is None or not thread.is_alive():
            return True
        identity = thread.ident or 0
        stack = stack_of(identity)
        if stack and self._file and stack[0].f_code.co_filename == self._file:
            import ctypes  # for a rule that hangs

            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(identity), ctypes.py_object(_AbandonedError))
        return False

    def _work(self) -> None:
        try:
            while (task := self._next()) is not None:
                self._judge(task)
                del task  # it holds a window, and this thread may be idle for long
        except _AbandonedError:
            return

    def _next(self) -> JudgingTask | None:
        with self._changed:
            if not self._tasks:
                self._changed.wait_for(lambda: bool(self._tasks) or self._is_abandoned, _IDLE_SECONDS)
            if not self._tasks or self._is_abandoned:
                self._thread = None
                return None
            task = self._tasks.popleft()
            self._step, self._began = task.step, time.monotonic()
            self.reading.seconds = 0.0
            return task

    def _judge(self, task: JudgingTask) -> None:
        judgement: Judgement | None = None
        failure: Failure | None = None
        try:
            judgement = task.judge(self._progress)
        except _AbandonedError:
            raise
        except BaseException as error:  # noqa: BLE001  a rule may be anybody's code; its error is reported
            failure = Failure(task.step, error)
        with self._changed:
            self._step = None
            if judgement is not None and not self._is_abandoned:
                self._judgements.append(judgement)
                self._progress = judgement.progress
            self._failure = failure
            if failure is not None or self._progress.has_concluded:
                self._tasks.clear()
            self._changed.notify_all()


class _Reading:
    """Measures the seconds that the rule's thread has spent reading the run at this step."""

    def __init__(self) -> None:
        self.seconds, self.since = 0.0, 0.0  # since: 0 while it does not

    def __enter__(self) -> None:
        self.since = time.monotonic()

    def __exit__(self, *raised: object) -> None:
        self.seconds += time.monotonic() - self.since
        self.since = 0.0


class _AbandonedError(BaseException):
    """Raised in the thread of an abandoned rule. No `Exception`: the rule's own handlers must not swallow it."""
