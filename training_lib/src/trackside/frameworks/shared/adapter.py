"""The seam for frameworks: the protocol of an adapter, and the sources that it holds.

An adapter translates events of a framework into calls of a session (`capture/session.py`), which owns the run. It
decides where a step ends, and calls its sources as a step goes on. See docs/write-an-adapter.md, and
`trackside.testing.adapter_contract` for the tests that every adapter inherits.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from trackside.capture.session import Rank, RunSession
from trackside.capture.writing.writer_parts import BackgroundPart
from trackside.contracts.run.rescue import RescueRecord, RescueState
from trackside.contracts.run_layout import PROFILES, worker_name
from trackside.contracts.run_layout import RESCUE as RESCUES
from trackside.environment import RescueEnvironment, inherited
from trackside.products import MACHINE_PART, RESCUE, product

LEAST_INTERVAL_MS = 100
_NO_RESCUE = "only trainings by PyTorch, and by Keras on it, go back"

Undo = Callable[[], object]


class Adapter(Protocol):
    """An adapter of a framework, which holds the session of one training.

    Attributes:
        session: The run: engine, statistics, files, writer, guard, process end.
    """

    session: RunSession

    def install(self) -> None:
        """Install the hooks in the framework."""

    def uninstall(self) -> None:
        """Close the run, and leave the framework as it was."""

    def flush(self, timeout_seconds: float = ...) -> None:
        """Store the steps that have ended."""

    def close(self, timeout_seconds: float = ..., *, is_interrupted: bool = ...) -> None:
        """End the open step if it is whole, and the run. Never raises."""


class StepHook(Protocol):
    """Something of ours in a library that each step of a training meets. It is taken out while the training rests."""

    def put_in(self) -> None:
        """Put it in. A second call does nothing."""

    def take_out(self) -> bool:
        """Take it out. Return False if it stays, and at work, because another library has built upon it."""


class Source(Protocol):
    """One kind of data that an adapter captures. A source has a method for each event that it needs, and no others.

    All are called on the training's thread and under the session's guard. `mode` is the mode of the step.
    """

    def install(self) -> Undo:
        """Install the hooks in the framework that stay for the whole run. Return the function that undoes it."""

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks in the framework that each step meets. They are taken out while the training rests."""

    def rest_ended(self, steps: int) -> None:
        """Handle the end of a rest of so many training steps: what was seen before is not what came right before."""

    def step_began(self, step: int) -> None:
        """Handle the start of the step with this number."""

    def before_optimizer(self, optimizer: Any) -> None:
        """Handle the moment before weights are updated. Called only if the open step saves anything."""

    def after_optimizer(self, optimizer: Any) -> None:
        """Handle the moment after weights were updated. Called only if the open step saves anything."""

    def settle(self, mode: str) -> None:
        """Mark everything added so far as the open step's own, as `OpenStep.settle`."""

    def drop_unsettled(self, mode: str) -> None:
        """Drop everything added since the last `settle`: it leads to no step, as `OpenStep.drop_unsettled`."""

    def step_ending(self) -> None:
        """Handle the moment before the open step ends, even if it saves nothing."""

    def step_ended(self, mode: str, *, keep_unsettled: bool) -> None:
        """Handle the end of the open step, right before `StepEngine.end_step`.

        Called only if the step saves anything.
        """


def machine_parts(session: RunSession, rank: Rank) -> tuple[BackgroundPart, ...]:
    """Return the sampler of this machine, if the request asks for it and this process is the machine's first."""
    environment, interval = session.environment, session.request.machine_interval_ms
    number = rank.number if environment.local_rank is None else environment.local_rank
    if not interval or number or not session.has_place_for_profiles or environment.ended_by:
        return ()
    return (
        product(MACHINE_PART).MachinePart(
            functools.partial(session.open_folder, PROFILES),
            interval_ms=max(interval, LEAST_INTERVAL_MS),
            node=environment.machine,
            environment=inherited(),
        ),
    )


def refuse_rescue(session: RunSession, rank: Rank) -> None:
    """Store a refusal if this process was asked for rescues and has nothing that makes them. Never raises.

    Args:
        session: The run, which has begun.
        rank: This process.
    """
    if RescueEnvironment.read().is_on and RESCUE not in sys.modules:
        session.guard.attempt("noting that nothing goes back", functools.partial(_refuse, session, rank))


def _refuse(session: RunSession, rank: Rank) -> None:
    folder, key = session.open_folder(RESCUES), f"{worker_name(rank.number)}.json"
    if not any(folder.list(key)):  # else of another process of the run, which may go back
        folder.put(key, RescueRecord(RescueState.REFUSED, _NO_RESCUE).to_json().encode())


EVENTS = tuple(name for name in vars(Source) if not name.startswith("_"))


class Sources:
    """The sources of an adapter, in their order: for each event the methods to call.

    Raises:
        TypeError: A source has a public method that is no event, for example a misspelled one.
    """

    def __init__(self, *sources: object) -> None:
        for source in sources:
            if not any(hasattr(source, event) for event in EVENTS):
                raise TypeError(f"{type(source).__name__} is no source: it has none of {', '.join(EVENTS)}.")
        self._sources = sources
        self.step_began = _each(sources, "step_began")
        self.before_optimizer = _each(sources, "before_optimizer")
        self.after_optimizer = _each(sources, "after_optimizer")
        self.settle = _each(sources, "settle")
        self.drop_unsettled = _each(sources, "drop_unsettled")
        self.step_ending = _each(sources, "step_ending")
        self.step_ended = _each(sources, "step_ended")
        self.rest_ended = _each(sources, "rest_ended")

    def step_hooks(self) -> list[StepHook]:
        """Return the hooks of each source that every step meets."""
        return [hook for hooks in _each(self._sources, "step_hooks") for hook in hooks()]

    def install(self) -> list[Undo]:
        """Install each source. Return the functions that undo it, first to last."""
        return [source.install() for source in self._sources if hasattr(source, "install")]


def _each(sources: Iterable[object], event: str) -> tuple[Callable[..., Any], ...]:
    return tuple(getattr(source, event) for source in sources if hasattr(source, event))
