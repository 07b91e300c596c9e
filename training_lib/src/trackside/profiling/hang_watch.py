"""Looks for a hang: no progress for longer than the training's own past explains.

Progress is a step, a change of phase (a batch of an evaluation too), or another line of the user's code. The stacks of
all threads are kept once for each hang. Nothing is stopped: this only observes.
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from trackside.profiling.phase_clock import FIRST_STEPS, PhaseClock
from trackside.thread_stacks import Stack, all_stacks, line_of, stack_of

LOOK_SECONDS = 5.0  # between two looks
LEAST_SECONDS = 60.0
TIMES = 5.0  # the longest step so far
SAVING_TIMES = 10.0  # as long while the training writes a checkpoint
MOST_CHARACTERS = 200_000  # of all stacks
_SAVES = re.compile(r"(^|_)(save|checkpoint|dump|upload|export)", re.IGNORECASE)


@dataclass(frozen=True)
class Hang:
    """A hang.

    Attributes:
        phase: Number of the phase.
        step: Number of steps that the process had taken.
        began_at: The newest progress, in seconds since the epoch.
        seconds: Seconds without progress when it was found.
        limit_seconds: Seconds that the past explains.
        file: The innermost file of the user's on the training thread's stack.
        line: The line in it.
        function: The function in it.
        stacks: The stacks of all threads, as text.
        is_over: True once the training went on.
    """

    phase: int
    step: int
    began_at: float
    seconds: float
    limit_seconds: float
    file: str
    line: int
    function: str
    stacks: str
    is_over: bool = False


class HangWatch:
    """Watches the thread of a clock. `look` is called every `LOOK_SECONDS`.

    Attributes:
        hang: The newest hang; None for none.

    Args:
        clock: The clock of the training.
        is_user_file: Returns True for a file of the user's.
        monotonic: Returns seconds.
        wall_clock: Returns seconds since the epoch.
    """

    def __init__(
        self,
        clock: PhaseClock,
        *,
        is_user_file: Callable[[str], bool],
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.hang: Hang | None = None
        self._clock, self._is_user_file = clock, is_user_file
        self._monotonic, self._wall_clock = monotonic, wall_clock
        self._progress: object = None
        self._since = monotonic()

    def look(self) -> None:
        """Look once: note progress, or a hang."""
        clock, now = self._clock, self._monotonic()
        frames = stack_of(clock.thread)
        user = [frame for frame in frames if self._is_user_file(frame.f_code.co_filename)]
        progress = (clock.steps, clock.moved_at, [(frame.f_code, frame.f_lasti) for frame in user])
        if progress != self._progress or not user:  # without the user's code: an idle notebook
            self._progress, self._since = progress, now
            if self.hang is not None and not self.hang.is_over:
                self.hang = replace(self.hang, is_over=True)
            return
        if clock.steps <= FIRST_STEPS or (self.hang is not None and not self.hang.is_over):
            return
        limit = max(LEAST_SECONDS, TIMES * clock.longest)
        if any(_SAVES.search(frame.f_code.co_name) for frame in frames):
            limit *= SAVING_TIMES
        if now - self._since > limit:
            self.hang = Hang(
                phase=clock.current,
                step=clock.steps,
                began_at=self._wall_clock() - (now - self._since),
                seconds=now - self._since,
                limit_seconds=limit,
                file=user[0].f_code.co_filename,
                line=line_of(user[0]),
                function=user[0].f_code.co_name,
                stacks=_all_stacks(),
            )


def _all_stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"Thread {names.get(ident, ident)}:\n{_text(stack)}"
        for ident, stack in all_stacks().items()
        if ident != threading.get_ident()
    ]
    return "\n".join(parts)[:MOST_CHARACTERS]


def _text(stack: Stack) -> str:
    frames = traceback.StackSummary.extract((frame, line_of(frame)) for frame in reversed(stack))
    return "".join(frames.format())
