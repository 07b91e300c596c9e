"""The process of one rule from a file: loads it, and answers the evaluator's questions until the evaluator ends."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import ModelFacts
from trackside.evaluation.rule_processes.rule_messages import (
    PROFILE,
    Answer,
    Load,
    Question,
    Raised,
    Read,
    SeenStep,
    facts_of,
)
from trackside.records.machine.performance_facts import PerformanceFacts
from trackside.rules.rule import FoldingRule, Rule
from trackside.rules.rule_file import load_rule
from trackside.trial.window import Column, MachineSeries, Panel, StepValues, Window

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def serve(descriptor: int, parent: int) -> None:
    """Answer questions until the connection closes.

    Args:
        descriptor: The file descriptor of the connection.
        parent: The id of the evaluator's process, whose end ends this one.
    """
    _end_with(parent)
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the evaluator, which needs this rule to its end
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
    connection = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionError):
        load = cast("Load", connection.recv())
        _limit_memory(load.memory_bytes)
        try:
            rule = load_rule(load.configuration)
            facts = facts_of(rule)
        except BaseException as error:  # noqa: BLE001  the file is anybody's code; its error is reported
            connection.send(Raised.of(error))
            return
        connection.send(Answer(facts))
        while True:
            _answer(connection, rule, cast("Question", connection.recv()))


def _answer(connection: Connection, rule: Rule, question: Question) -> None:
    arguments = [_window(connection, each) if isinstance(each, SeenStep) else each for each in question.arguments]
    try:
        answer: Answer | Raised = Answer(_result(rule, question.method, arguments))
    except (EOFError, ConnectionError):
        raise
    except BaseException as error:  # noqa: BLE001  as above
        answer = Raised.of(error)
    try:
        connection.send(answer)
    except (TypeError, AttributeError, ValueError) as error:  # something in it cannot travel
        connection.send(Raised.of(error))


def _result(rule: Rule, method: str, arguments: Sequence[Any]) -> Any:
    if method == "fold":
        return _fold(cast("FoldingRule", rule), *arguments)
    result = getattr(rule, method)(*arguments)
    return tuple(result) if method in {"check", "suspicions", "advice"} else result


def _fold(rule: FoldingRule, memory: str, window: Window) -> tuple[str, tuple[Any, ...]]:
    state, findings = rule.fold(rule.load(memory) if memory else rule.start(), window)
    found = tuple(findings)
    return rule.dump(state), found


def _window(connection: Connection, seen: SeenStep) -> Window:
    others = {name: RemoteSource(connection, name) for name in seen.others}
    source = RemoteSource(connection, "", seen.uri)
    profile = RemoteProfile(connection)
    return Window(source, seen.step, seen.mode, seen.now, seen.newest_step_at, others, seen.is_last, profile)


def _read(connection: Connection, run: str, method: str, *arguments: Any, **named: Any) -> Any:
    connection.send(Read(run, method, arguments, named))
    answer = connection.recv()
    if isinstance(answer, Raised):
        raise answer.error()
    return answer.value


@dataclass(frozen=True)
class RemoteSource:
    """A window's source that the evaluator reads. `uri` is the location of the run's tensors; "" if unknown."""

    connection: Connection
    run: str
    uri: str = ""

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Implement `TensorSource.tensor_names`."""
        return cast("tuple[str, ...]", self._read("tensor_names", collection=collection, last_step=last_step))

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Implement `TensorSource.columns`."""
        return cast("tuple[Column, ...]", self._read("columns", tensor, statistic, last_step=last_step, mode=mode))

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Implement `TensorSource.at_step`."""
        return cast("StepValues", self._read("at_step", tuple(tensors), statistic, step=step, mode=mode))

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Implement `TensorSource.newest`."""
        found = self._read("newest", tuple(tensors), statistic, last=last, last_step=last_step, mode=mode)
        return cast("tuple[Panel, ...]", found)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Implement `TensorSource.value`."""
        return cast("NDArray[np.generic]", self._read("value", tensor, step=step, worker=worker))

    def facts_at(self, step: int) -> ModelFacts | None:
        """Implement `TensorSource.facts_at`."""
        return cast("ModelFacts | None", self._read("facts_at", step))

    def _read(self, method: str, *arguments: Any, **named: Any) -> Any:
        return _read(self.connection, self.run, method, *arguments, **named)


@dataclass(frozen=True)
class RemoteProfile:
    """A window's measurements of the run's speed, which the evaluator reads."""

    connection: Connection

    def machine(self, dimension: str, *, name: str, until: float) -> tuple[MachineSeries, ...]:
        """Implement `ProfileSource.machine`."""
        return cast("tuple[MachineSeries, ...]", self._read("machine", dimension, name=name, until=until))

    def facts(self) -> Mapping[str, PerformanceFacts]:
        """Implement `ProfileSource.facts`."""
        return cast("Mapping[str, PerformanceFacts]", self._read("facts"))

    def ended_at(self, step: int) -> float:
        """Implement `ProfileSource.ended_at`."""
        return cast("float", self._read("ended_at", step))

    def step_at(self, moment: float) -> int:
        """Implement `ProfileSource.step_at`."""
        return cast("int", self._read("step_at", moment))

    def first_end(self) -> float | None:
        """Implement `ProfileSource.first_end`."""
        return cast("float | None", self._read("first_end"))

    def _read(self, method: str, *arguments: Any, **named: Any) -> Any:
        return _read(self.connection, PROFILE, method, *arguments, **named)


def _end_with(parent: int) -> None:
    """Have the system end this process with its parent: a loop in C would not see the connection close. Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
        prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _limit_memory(size_bytes: int) -> None:
    """Have larger allocations fail with `MemoryError`, which ends the rule. Systems without the limit go without."""
    import resource  # which Windows lacks

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
