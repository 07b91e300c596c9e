"""The thread that trains: of two trainings in two threads one is captured, and the other one is left alone.

Whoever looks at a gradient while PyTorch writes it may end the process, and PyTorch writes gradients without Python's
lock. So nobody may look at what another thread trains.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from threading import get_ident

from torch.optim.optimizer import Optimizer

from trackside.thread_stacks import innermost_of

_WAIT = frozenset(["threading", "selectors"])  # modules whose functions a thread is in that waits for another one
QUIET_SECONDS = 1.0  # a training that has made no step for so long may have ended, and another one begun


class TrainingThread:
    """The thread of the captured training, which may move to another one.

    Attributes:
        number: Of the thread; 0 before the first step.
        newest: The id of the newest optimizer with a captured step.
        has_company: True once another thread has trained, too, and may be at it.

    Args:
        step: Returns the number of the open step.
        moved: Called when the training has moved: nothing that it remembers of gradients may be looked at any more.
        clock: Returns seconds.
    """

    def __init__(
        self, step: Callable[[], int], *, moved: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.number = 0
        self._step, self._moved, self._clock = step, moved, clock
        self._known: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # that have made captured steps
        self._own: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # of these, those of the training that has moved last
        self.newest, self.has_company = 0, False
        self._waits_at, self._waits_since = -1, 0.0  # the open step as another thread made one

    def is_another(self, optimizer: Optimizer) -> bool:
        """Return True if this thread, which makes a step of the optimizer, is not that of the captured training.

        It becomes that thread if there is none, if that one has ended, waits for others or has been quiet for long, and
        with an optimizer of the captured training.
        """
        thread = get_ident()
        if thread != self.number and not self._moves(thread, optimizer):
            self.has_company = True
            return True
        if id(optimizer) != self.newest:
            self.newest = id(optimizer)
            self._known.add(optimizer)
            self._own.add(optimizer)
        return False

    def is_another_pass(self) -> bool:
        """Return True if this thread, which begins a backward pass, is not that of the captured training."""
        is_another = self.number not in (0, get_ident()) and self._is_alive()
        self.has_company = self.has_company or is_another
        return is_another

    def may_read(self, optimizer: Optimizer | None) -> bool:
        """Return True if no other thread can be writing the gradients of what an optimizer holds.

        Args:
            optimizer: None for what no optimizer holds.
        """
        return not self.has_company or (optimizer is not None and optimizer in self._own)

    def _moves(self, thread: int, optimizer: Optimizer) -> bool:
        if self.number and optimizer not in self._known and self._is_at_work() and not self._is_quiet():
            return False
        if self.number:
            self._moved()
            if optimizer not in self._known:  # another training: the one before may go on
                self.has_company = True
                self._own.clear()
        self.number = thread
        return True

    def _is_alive(self) -> bool:
        return any(thread.ident == self.number for thread in threading.enumerate())

    def _is_at_work(self) -> bool:
        frame = innermost_of(self.number)
        if frame is None:  # it has ended, or this Python cannot tell
            return self._is_alive()
        return frame.f_globals.get("__name__") not in _WAIT

    def _is_quiet(self) -> bool:
        step, now = self._step(), self._clock()
        if step != self._waits_at:
            self._waits_at, self._waits_since = step, now
        return now - self._waits_since >= QUIET_SECONDS
