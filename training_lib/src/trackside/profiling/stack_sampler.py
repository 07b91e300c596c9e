"""Samples of the training thread's stack: the lines of the user's code that a step's time is spent in.

A thread takes a sample every few milliseconds, for a second or two at a time with longer and longer pauses: a training
repeats itself. It draws no random number, and holds no frame. While the training rests the phase is not known, and
nothing is sampled.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from enum import Enum
from types import FrameType
from typing import NamedTuple, Protocol

from trackside.profiling import hang_watch
from trackside.profiling.hang_watch import HangWatch
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, DATA, OPTIMIZER, OTHER, PhaseClock
from trackside.profiling.step_loop import StepLoop
from trackside.thread_stacks import Stack, line_of, stack_of

INTERVAL_SECONDS = 0.005
BURST_SAMPLES = 200
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 120.0
FIRST_STEP = 3  # before it, memory is allocated and kernels are chosen
IDLE_SECONDS = 0.05  # between two looks until then
REST_SECONDS = 0.5  # between two looks while steps are at rest: as long as a rest may last
MOST_LINES = 500
STOP_SECONDS = 0.5  # at most, for the sample under way


class SampledLine(NamedTuple):
    """A place at which a sample found the training.

    Attributes:
        phase: The number of the phase.
        file: The innermost file of the user's on the stack; "" for none.
        line: The line in it.
        function: The function in it.
        library: The innermost function, if it is not the user's: `module.function`.
        is_in_model: True below the call of a module.
        is_fetch: True if the loop asked for a batch there, in no phase of the step; see `StepLoop`.
        is_unknown: True in a compiled function that fetched or computed.
    """

    phase: int
    file: str
    line: int
    function: str
    library: str
    is_in_model: bool
    is_fetch: bool = False
    is_unknown: bool = False


class Inside(Enum):
    """The work of a compiled function, which Python's stack does not show."""

    FETCHES = "it waits for a batch"
    COMPUTES = "it computes"
    UNKNOWN = "it does one of both"


class CompiledStep(Protocol):
    """A look into a function that makes whole steps, its fetches included. Its methods are called on any thread."""

    def look(self) -> Inside | None:
        """Return its present work; None outside of it."""

    def maker(self) -> Stack:
        """Return the stack of a thread that makes batches; [] if Python makes none."""


class StackSampler:
    """Samples the thread of a clock.

    Attributes:
        lines: The number of samples by line.
        seconds: Processor time of its thread so far.

    Args:
        clock: The clock of the training.
        is_user_file: Returns True for a file of the user's.
        model_file: The file with the function that calls modules.
        failed: Called once if sampling fails; it then ends.
        watch: Looks for a hang, all the time; None: nothing does.
        loop: The loop that takes the steps.
        compiled: Looks into the function that makes the steps; None without one.
        loop_file: The library's file with the loop over steps: a line of the user's that only called it is not named
            for time in no phase. "" where the loop is the user's own.
        fetch_file: The library's file with the iterator that this loop takes batches from; "" for none.
    """

    def __init__(
        self,
        clock: PhaseClock,
        *,
        is_user_file: Callable[[str], bool],
        model_file: str,
        failed: Callable[[Exception], object],
        watch: HangWatch | None,
        loop: StepLoop | None = None,
        compiled: CompiledStep | None = None,
        loop_file: str = "",
        fetch_file: str = "",
    ) -> None:
        self.lines: Counter[SampledLine] = Counter()
        self.seconds = self._without_look = 0.0
        self._clock, self._is_user_file, self._failed = clock, is_user_file, failed
        self._model_file, self._loop_file, self._fetch_file = model_file, loop_file, fetch_file
        self._watch, self._compiled, self._stop = watch, compiled, threading.Event()
        self._loop = loop or StepLoop(is_user_file=is_user_file)
        self._thread = threading.Thread(target=self._run, name="trackside-stacks", daemon=True)

    def start(self) -> None:
        """Start to sample."""
        self._thread.start()

    def stop(self) -> None:
        """End the sampling, and a sample that is under way. A second call does nothing."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)

    def sample(self) -> None:
        """Take one sample."""
        phase = self._clock.current
        stack = stack_of(self._clock.thread)
        if not stack or phase == CAPTURE or self._clock.is_stopped:
            return
        if phase in (BACKWARD, OPTIMIZER):
            self._loop.note(stack)
        inside = self._compiled.look() if self._compiled is not None and phase == OTHER else None
        line = self._line(stack, phase) if inside is None else self._line_inside(stack, inside)
        maker = self._compiled.maker() if self._compiled is not None and line.phase == DATA else []
        if maker:
            line = self._line(maker, DATA)
        if inside is Inside.FETCHES:
            line = line._replace(phase=OTHER, is_in_model=False, is_fetch=True)
        if line in self.lines or len(self.lines) < MOST_LINES:
            self.lines[line] += 1

    def _run(self) -> None:
        try:
            while not self._stop.wait(IDLE_SECONDS):
                if self._clock.steps >= FIRST_STEP:
                    break
            pause = FIRST_PAUSE_SECONDS
            while not self._stop.is_set():
                self._burst()
                self._pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - nothing of ours may end the training
            self._failed(error)

    def _burst(self) -> None:
        """Take the samples of a burst, each in a watched step."""
        left = BURST_SAMPLES
        while left and not self._stop.wait(seconds := REST_SECONDS if self._clock.is_stopped else INTERVAL_SECONDS):
            if self._clock.is_stopped:
                self._look(seconds)
                continue
            self.sample()
            self.seconds = time.thread_time()
            left -= 1

    def _pause(self, seconds: float) -> None:
        """Wait between two bursts of samples, and look for a hang meanwhile."""
        while seconds > 0 and not self._stop.wait(min(seconds, hang_watch.LOOK_SECONDS)):
            self._look(hang_watch.LOOK_SECONDS)
            seconds -= hang_watch.LOOK_SECONDS

    def _look(self, seconds: float) -> None:
        """Look for a hang, if it is time to, after so many seconds more."""
        self._without_look += seconds
        if self._without_look >= hang_watch.LOOK_SECONDS and self._watch is not None:
            self._without_look = 0.0
            self._watch.look()
            self.seconds = time.thread_time()

    def _line_inside(self, stack: Stack, inside: Inside) -> SampledLine:
        """Return the line of a compiled function's work: none of the user's, but for a wait for a batch."""
        if inside is Inside.FETCHES:
            return self._line(stack, DATA)
        is_unknown = inside is Inside.UNKNOWN
        return SampledLine(OTHER, "", 0, "", "", is_in_model=not is_unknown, is_unknown=is_unknown)

    def _line(self, stack: Stack, phase: int) -> SampledLine:
        file, line, function, is_in_model = "", 0, "", False
        for frame in stack:
            code = frame.f_code
            if phase == OTHER and code.co_filename == self._fetch_file:
                phase = DATA
            if phase == OTHER and not file and code.co_filename == self._loop_file:
                break
            if not file and self._is_user_file(code.co_filename):
                file, line, function = code.co_filename, line_of(frame), code.co_name
            is_in_model = is_in_model or code.co_filename == self._model_file
            if file and (is_in_model or phase != OTHER) and not self._fetch_file:
                break
        library = "" if file == stack[0].f_code.co_filename else _library_name(stack[0])
        is_fetch = phase == OTHER and not is_in_model and self._loop.is_fetching(stack)
        return SampledLine(phase, file, line, function, library, is_in_model, is_fetch)


def _library_name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}"
