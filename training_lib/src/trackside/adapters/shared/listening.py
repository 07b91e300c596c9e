"""Adapters that get all events from the framework's own calls, and the direction of one of them by a script's hook."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trackside.capture.ground.guard import Guard
from trackside.capture.place import Place, settled
from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, Owner, Rank, RunSession, SessionOptions
from trackside.capture.statistics.always_on import Moment
from trackside.capture.steps.last_step import StepPosition
from trackside.capture.steps.open_step import SCALARS
from trackside.capture.steps.step_engine import TRAIN, Position
from trackside.capture.writing.program_facts import ProgramFactsFile
from trackside.capture.writing.writer_parts import BackgroundPart
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.contracts.run_layout import worker_name
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.adapter import Undo, machine_parts, refuse_rescue
from trackside.frameworks.shared.detailed_profile import DetailedProfile
from trackside.frameworks.shared.rehearsed_steps import rehearsed_steps
from trackside.profiling.windows import Begin
from trackside.records.modes import checked_mode


class ListeningAdapter:
    """An adapter without sources of its own; see `frameworks/shared/adapter.py`.

    Attributes:
        session: The run.
        speed_parts: Returns the parts of the writer that store facts about speed, for a rank: none, by default.
        detailed: The detailed profiling of a few steps.
        progressed: Called between two steps, with the number of steps that have ended, and the last one that had
            anything to save; None: not called.
        last_saved_step: The number of the last step that had anything to save; None if none had.
        rehearsed: The steps of a rehearsal by `trackside check`; None in any other training.

    An inheriting class ends each step by `end_step`.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        owner: Flushed and closed at the end of the process, in the place of this adapter.
        framework: The framework of `begin_operators`; see `DetailedProfile`.
        begin_operators: Begins a profile of the framework's operators.
    """

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        options: SessionOptions | None = None,
        owner: Owner | None = None,
        framework: str = "",
        begin_operators: Begin | None = None,
    ) -> None:
        self.session = RunSession(environment, options=options)
        self.detailed = DetailedProfile(
            self.session,
            framework=framework,
            begin_operators=begin_operators,
        )
        self._owner, self._undo = owner or self, list[Undo]()
        self.speed_parts: Callable[[Rank], Iterable[BackgroundPart]] = lambda rank: ()
        self.progressed: Progressed | None = None
        self._latest: int | None = None
        self.rehearsed = rehearsed_steps(environment, self.uninstall)

    @property
    def has_begun(self) -> bool:
        """True once the first step has been made."""
        return self.session.has_begun

    @property
    def is_in_step(self) -> bool:
        """True while a step is under way, for the script: False from its end to the next beginning."""
        return False

    def step_of_script(self) -> StepPosition | None:
        """Return the ended step that the script's values still belong to; None if they belong to the open one."""
        return None

    def signs(self) -> UncapturedProcess:
        """Return the signs of training before the first step: none is known."""
        return UncapturedProcess()

    def end_step(self, ended: Moment | None = None) -> None:
        """End the open step: its statistics, its tensors; with the last step of a rehearsal, the script.

        Args:
            ended: As in `AlwaysOn.end_step`.
        """
        engine = self.session.engine
        if not engine.open_step.is_empty:
            self._latest = engine.step
        self.session.statistics.end_step(engine, ended=ended)
        engine.end_step()
        self.detailed.step_ended()
        if self.rehearsed is not None:
            self.rehearsed.stepped(self.session)

    def note_progress(self) -> None:
        """Call `progressed`, unless it is not known how many steps an earlier process has made.

        An inheriting class calls it between two steps: after the script may have written a checkpoint of the one, and
        before it may write one of the next.
        """
        session = self.session
        if self.progressed is not None and session.engine.step and session.is_start_known:
            self.progressed(session.engine.position(), self.last_saved_step)

    @property
    def last_saved_step(self) -> int | None:
        return self._latest if self.session.last is None else self.session.last.latest

    def end_open_step(self) -> None:
        """End a step that the script gave values after the last one."""
        engine = self.session.engine
        if self.has_begun and not engine.open_step.is_empty:
            engine.end_step()

    def listen(self) -> Undo:
        """Listen to the framework. Return the function that undoes it."""
        raise NotImplementedError

    def install(self) -> None:
        """Listen to the framework."""
        self._undo.append(self.listen())

    def uninstall(self) -> None:
        """Close the run, and leave the framework as it was."""
        self.close()
        self.session.forget_process_end()
        while self._undo:
            self._undo.pop()()

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the steps that have ended."""
        if self.session.last is not None:
            self.session.last.release()
        self.session.flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. Never raises."""
        if self.session.has_begun:
            if self.session.last is not None:
                self.session.guard.attempt("saving the last step", self.session.last.release)
            self.detailed.windows.end()
            if self.rehearsed is not None:
                self.rehearsed.closing(self.session, is_interrupted=is_interrupted)
            self.session.close(timeout_seconds, is_interrupted=is_interrupted)

    def begin_run(self, rank: Rank, facts: ModelFacts, *, first_step: int = 0) -> ProgramFactsFile:
        """Begin the run, as `RunSession.begin`. Return the file of facts about the program."""
        session = self.session
        if self.rehearsed is not None:
            self.rehearsed.began(rank)
        file = ProgramFactsFile(
            facts, session.open_folder, worker=worker_name(rank.number), start=session.start_position
        )
        facts_parts = [file] if session.stores_run else []

        def idle_parts() -> list[BackgroundPart]:
            return [*machine_parts(session, rank), *self.detailed.parts(rank), *self.speed_parts(rank)]

        session.begin(rank, owner=self._owner, facts=facts_parts, idle_parts=idle_parts, first_step=first_step)
        refuse_rescue(session, rank)
        return file


Progressed = Callable[[Position, "int | None"], object]
MakeAdapter = Callable[..., ListeningAdapter]


class ListeningView:
    """The state of its capture that a script may read.

    Args:
        script: The capture that it directs.
    """

    def __init__(self, script: ListeningScript) -> None:
        self._script = script

    @property
    def has_begun(self) -> bool:
        """True from the first step on."""
        return self._script.adapter is not None and self._script.adapter.has_begun

    @property
    def mode(self) -> str:
        """The mode of the open step."""
        adapter = self._script.adapter
        return self._script.mode if adapter is None else str(adapter.session.engine.mode)

    @property
    def step(self) -> int:
        """The number of the step under way, or else of the one that ended last, over all modes; -1 before the first."""
        adapter = self._script.adapter
        return -1 if adapter is None else adapter.session.engine.step - (not adapter.is_in_step)

    def mode_steps(self) -> dict[str, int]:
        """Return the same number for each mode that has begun, as it counts within that mode."""
        adapter = self._script.adapter
        counts = {} if adapter is None else adapter.session.engine.position().mode_steps or {}
        open_mode = adapter.session.engine.mode if adapter is not None and adapter.is_in_step else ""
        return {mode: count - (mode != open_mode) for mode, count in counts.items() if count or mode == open_mode}

    def position(self) -> tuple[str, int]:
        """Return (mode, step within it) that the script's own values go to."""
        adapter = self._script.adapter
        if adapter is None:
            return self._script.mode, 0
        ended, engine = adapter.step_of_script(), adapter.session.engine
        return (engine.mode, engine.mode_step()) if ended is None else (ended.mode, ended.mode_step)

    @property
    def last_saved_step(self) -> int | None:
        """The number of the last step that had anything to save; None if none had."""
        adapter = self._script.adapter
        return None if adapter is None else adapter.last_saved_step

    def open_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the open step so far."""
        adapter = self._script.adapter
        return {} if adapter is None else dict(adapter.session.engine.open_step.tensors())

    def due_collections(self) -> frozenset[str]:
        """Return the collections that the open step saves."""
        adapter = self._script.adapter
        return frozenset() if adapter is None else frozenset(adapter.session.engine.due.collections)


class ListeningScript:
    """The capture of one training, for the hook of a script. Nothing raises but `set_mode`, for a wrong mode.

    Attributes:
        adapter: The adapter, from the beginning of the capture to its end.
        is_over: True after `close`.
        mode: The mode that the script has set last.
        now: The state that the script may read.

    Args:
        request: Returns the request, when the capture begins.
        make: Makes the adapter, of an environment and `options=`.
        place: The place of the run.
        options: Options for storing the run.
        array_of: Returns a copy of a tensor of the framework as an array; None for any other value.
        progressed: See `ListeningAdapter`.
    """

    def __init__(
        self,
        request: Callable[[], CaptureRequest],
        make: MakeAdapter,
        *,
        place: Place,
        options: SessionOptions | None = None,
        array_of: Callable[[Any], np.ndarray | None] = np.array,
        progressed: Progressed | None = None,
    ) -> None:
        self._progressed = progressed
        self._request, self._make, self._place, self._array_of = request, make, place, array_of
        self._options = options or SessionOptions()
        self._guard = Guard()
        self._waiting: list[tuple[str, np.ndarray, frozenset[str], float | None]] = []  # until the capture begins
        self.mode = TRAIN
        self.adapter: ListeningAdapter | None = None
        self.is_over = False
        self.now = ListeningView(self)

    def begin(self) -> None:
        """Take the run of this process, once."""
        if self.adapter is None and not self.is_over:
            self._guard.protect("beginning to capture", self._begin)()

    def set_mode(self, mode: str) -> None:
        """Set the mode of the next steps.

        Raises:
            ValueError: It is no mode.
        """
        self.mode = checked_mode(mode)
        if self.adapter is not None:
            self._guard.attempt("setting the mode", functools.partial(self.adapter.session.engine.set_mode, mode))

    def save_tensor(self, name: str, value: Any, *, collections: Iterable[str]) -> None:
        """Save a value with the step that the script is in. A value that cannot be saved is logged once."""
        self._guard.attempt("saving a tensor", functools.partial(self._save, name, value, frozenset(collections)))

    def save_scalar(self, name: str, value: Any, *, wall_time: float | None = None) -> None:
        """Save `scalar/<name>` with the step that the script is in, or by itself after the last one.

        Args:
            name: Its name.
            value: The number.
            wall_time: Its moment, in seconds since the epoch; None for that of the step.
        """
        save = functools.partial(self._save, f"scalar/{name}", value, frozenset({SCALARS}), wall_time)
        self._guard.attempt("saving a scalar", save)

    def flush(self) -> None:
        """Store the steps that have ended, within some seconds."""
        if self.adapter is not None:
            self._guard.attempt("storing the run", self.adapter.flush)

    def close(self) -> None:
        """End the run. A second call does nothing."""
        self.is_over = True
        if self.adapter is not None:
            self._guard.attempt("ending the last step", self.adapter.end_open_step)
            self._guard.attempt("ending the run", self.adapter.uninstall)
            self.adapter = None
            in_charge.leave()

    def retire(self, *, is_gone: bool) -> None:
        """End the capture, and leave its run open for another hook of this process.

        Store nothing more if it was removed: `is_gone` is True if it is not to be found.
        """
        if self.adapter is not None:
            self.adapter.session.leave_open(is_gone=is_gone)
        self.close()

    def _begin(self) -> None:
        if not in_charge.put_script_in_charge():
            self._guard.warn_once("begun", "a run of this process has begun already, so this hook captures nothing.")
            self._guard.switch_off_silently()
            return
        environment, options = settled(
            self._place, self._request(), CaptureEnvironment.read(), self._options, guard=self._guard
        )
        self.adapter = self._make(environment, options=options)
        self.adapter.session.engine.set_mode(self.mode)
        self.adapter.progressed = self._progressed
        for each in self._waiting:
            self._add(self.adapter, *each)
        self._waiting = []
        self.adapter.install()

    def _save(self, name: str, value: Any, collections: frozenset[str], wall_time: float | None = None) -> None:
        array = self._array_of(value)
        is_scalar = SCALARS in collections
        if array is None or array.dtype.kind == "O" or (is_scalar and (array.size != 1 or array.dtype.kind in "US")):
            message = "%s cannot be saved, as a %s is no %s."
            kind = "scalar" if is_scalar else "tensor"
            self._guard.warn_once(f"value/{name}", message, name, type(value).__name__, kind)
            return
        if array.ndim == 0 or is_scalar:
            array = array.reshape(1)
        if self.adapter is None:
            self._waiting.append((name, array, collections, wall_time))
        else:
            self._add(self.adapter, name, array, collections, wall_time)

    def _add(
        self,
        adapter: ListeningAdapter,
        name: str,
        array: np.ndarray,
        collections: frozenset[str],
        wall_time: float | None,
    ) -> None:
        session, ended = adapter.session, adapter.step_of_script()
        if ended is not None and session.last is not None and array.size:
            session.last.amend(ended, name, array, collections, wall_time)
            return
        open_step = session.engine.open_step
        open_step.add(name, array, collections=collections)
        if wall_time is not None:
            open_step.wall_times[name] = wall_time
