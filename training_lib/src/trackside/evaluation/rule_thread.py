"""A thread in which one rule is asked, so that nobody else waits for it."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trackside.evaluation.asking import Answer
from trackside.evaluation.progress import RuleProgress

MOST_QUESTIONS = 2000  # handed on at once, about 1 KB each: as many as a quick rule answers between two polls
_IDLE_SECONDS = 5.0  # after which a thread with nothing to do ends; it is started again


@dataclass(frozen=True)
class Question:
    """What is asked of a rule about a step, given how far it has come: `through` once it has answered.

    `ask` errors: `StorageError`.
    """

    step: int
    through: int
    ask: Callable[[RuleProgress], Answer]


@dataclass(frozen=True)
class Failure:
    """A step that was not judged: a `StorageError`, or what ends a thread, such as `SystemExit`."""

    step: int
    error: BaseException


@dataclass(frozen=True)
class Stuck:
    """Where a rule is, and for how many seconds of its own."""

    step: int
    seconds: float


class RuleThread:
    """Asks one rule, one question after the other, each with the progress of the answer before.

    All methods are for the evaluator's thread; none waits for the rule but `wait`. `reading` is for the rule's. It is a
    daemon: a rule that never answers keeps no process from its end.
    """

    def __init__(self, name: str, progress: RuleProgress, *, file: str = "") -> None:
        self._name, self._file = name, file
        self._changed = threading.Condition()
        self._questions: deque[Question] = deque()
        self._answers: list[Answer] = []
        self._failure: Failure | None = None
        self._progress = progress
        self._thread: threading.Thread | None = None
        self._step: int | None = None  # that the rule is at
        self._began = 0.0
        self.reading = _Reading()
        self._is_given_up = False
        self.asked_through = progress.judged_through

    @property
    def room(self) -> int:
        """How many more questions it takes."""
        return MOST_QUESTIONS - len(self._questions)

    @property
    def is_idle(self) -> bool:
        """True if it has answered everything."""
        return not self._questions and self._step is None

    def give(self, question: Question) -> None:
        """Asks; the answer comes in `take`. Nothing is asked after a failure, or the rule's last word."""
        with self._changed:
            if self._failure is not None or self._progress.has_concluded:
                return
            self.asked_through = question.through
            self._questions.append(question)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"rule {self._name}", daemon=True)
                self._thread.start()
            else:
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Whether it has answered everything, at the latest after that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_idle, seconds)

    def take(self) -> tuple[list[Answer], Failure | None]:
        """The answers since the last time, in order, and the failure that came after them: then `start_over`."""
        with self._changed:
            answers, self._answers = self._answers, []
            return answers, self._failure

    def start_over(self, progress: RuleProgress) -> None:
        """Goes on from there: what was asked and not answered is to be asked again."""
        with self._changed:
            self._questions.clear()
            self._failure = None
            self._progress, self.asked_through = progress, progress.judged_through

    @property
    def stuck(self) -> Stuck | None:
        """Where it is; None if it is idle. The time in which it waited for the run to be read is not its own."""
        with self._changed:
            if self._step is None:
                return None
            return Stuck(self._step, (self.reading.since or time.monotonic()) - self._began - self.reading.seconds)

    def give_up(self) -> bool:
        """No answer is wanted any more. Ends the rule where it can be ended; True once it has.

        A thread cannot be ended from outside, but an exception can be put into it. That is done only where the
        innermost frame is the rule's own file: elsewhere the thread may hold a lock that others need, of `logging` for
        example. What sits in a system call stays, and costs nothing; what loops in C stays too.
        """
        with self._changed:
            self._is_given_up = True
            self._questions.clear()
            self._changed.notify_all()
        thread = self._thread
        if thread is None or not thread.is_alive():
            return True
        identity = thread.ident or 0
        frame = sys._current_frames().get(identity)  # documented, and meant for this
        if frame is not None and self._file and frame.f_code.co_filename == self._file:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(identity), ctypes.py_object(_GivenUpError))
        return False

    def _work(self) -> None:
        try:
            while (question := self._next()) is not None:
                self._answer(question)
                del question  # it holds a window, and this thread may be idle for long
        except _GivenUpError:
            return

    def _next(self) -> Question | None:
        with self._changed:
            if not self._questions:
                self._changed.wait_for(lambda: bool(self._questions) or self._is_given_up, _IDLE_SECONDS)
            if not self._questions or self._is_given_up:
                self._thread = None
                return None
            question = self._questions.popleft()
            self._step, self._began = question.step, time.monotonic()
            self.reading.seconds = 0.0
            return question

    def _answer(self, question: Question) -> None:
        answer: Answer | None = None
        failure: Failure | None = None
        try:
            answer = question.ask(self._progress)
        except _GivenUpError:
            raise
        except BaseException as error:  # noqa: BLE001  a rule may be anybody's code, and its error is somebody's news
            failure = Failure(question.step, error)
        with self._changed:
            self._step = None
            if answer is not None and not self._is_given_up:
                self._answers.append(answer)
                self._progress = answer.progress
            self._failure = failure
            if failure is not None or self._progress.has_concluded:
                self._questions.clear()
            self._changed.notify_all()


class _Reading:
    """Entered by the rule's thread while it reads the run: for how many seconds at this step."""

    def __init__(self) -> None:
        self.seconds, self.since = 0.0, 0.0  # since: 0 while it does not

    def __enter__(self) -> None:
        self.since = time.monotonic()

    def __exit__(self, *raised: object) -> None:
        self.seconds += time.monotonic() - self.since
        self.since = 0.0


class _GivenUpError(BaseException):
    """Put into the thread of a rule that was given up. No `Exception`: a rule's own handlers must not swallow it."""
