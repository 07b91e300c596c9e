"""Detailed profiling of a few steps of one training, for every adapter: windows, and the part that stores profiles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from trackside.capture.session import Rank, RunSession
from trackside.capture.writing.writer_parts import BackgroundPart
from trackside.contracts.run.profiling_request import OPERATORS, OUTSIDE, PYTHON, ProfilingRequest
from trackside.contracts.run_layout import PROFILER_CONFIG_KEY, PROFILES, worker_name
from trackside.profiling.outside_profile import begin_outside_profile
from trackside.profiling.python_profile import begin_python_profile
from trackside.profiling.window_part import WindowPart
from trackside.profiling.windows import Begin, ProfilingWindow, ProfilingWindows, Recording

_DOING = "profiling operators and functions"


class DetailedProfile:
    """The detailed profiling of one session.

    Attributes:
        windows: The windows: of operators, if the framework has a profiler for them, and of Python functions.

    Args:
        session: The session.
        framework: The framework of the operators, as in the keys of their files: "pytorch", "tensorflow", "mxnet".
        begin_operators: Begins a profile of the framework's operators; None for a framework without one.
        protect: Makes a function harmless for the script; None for the session's guard.
        others: Further windows, which the adapter opens by itself.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        framework: str = "",
        begin_operators: Begin | None = None,
        protect: Callable[[Callable[..., None]], Callable[..., None]] | None = None,
        others: Sequence[ProfilingWindow] = (),
    ) -> None:
        self._session, self._framework = session, framework
        self._request = ProfilingRequest()  # the newest
        operators = [ProfilingWindow(OPERATORS, begin_operators)] if begin_operators is not None else []
        python = ProfilingWindow(PYTHON, self._begin_python, is_by_step=True)
        outside = ProfilingWindow(OUTSIDE, self._begin_outside)
        self.windows = ProfilingWindows(*operators, python, outside, *others, protect=protect or self._attempted)

    def step_ended(self) -> None:
        """Begin and end what is due between two steps. Costs a comparison while no window is open."""
        step = self._session.engine.step
        if step >= self.windows.watched_from:
            self.windows.step_began(step)

    def parts(self, rank: Rank) -> Iterator[BackgroundPart]:
        """Yield the part that reads requests and stores profiles; none if the run has no place for them.

        Args:
            rank: The rank of this process.
        """
        session = self._session
        if not session.has_place_for_profiles:
            return
        folder = session.local_folder
        yield WindowPart(
            self.windows,
            functools.partial(session.open_folder, PROFILES),
            worker=worker_name(rank.number),
            framework=self._framework,
            request=session.request.profiling,
            config=session.environment.profiler_config
            or (f"{folder}/{PROFILES}/{PROFILER_CONFIG_KEY}" if folder else ""),
            started=functools.partial(setattr, self, "_request"),
            start=lambda: session.start_position().step,
            warn=lambda text: session.guard.warn_once(text, "%s", text),
        )

    def _attempted(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return the function with its errors logged: they end the profile, not the capture."""

        def run(*args: object) -> None:
            self._session.guard.attempt(_DOING, functools.partial(function, *args))

        return run

    def _begin_python(self) -> Recording | None:
        return begin_python_profile(self._request.profiler, self._request.timer)

    def _begin_outside(self) -> Recording:
        return begin_outside_profile(lambda text: self._session.guard.warn_once(text, "%s", text))
