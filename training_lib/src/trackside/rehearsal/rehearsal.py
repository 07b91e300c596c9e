"""The rehearsal in a training process: it counts steps, runs the probes, stores the answers and ends the script."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.session import Rank
from trackside.contracts.run.check import ALL_PROBES, Answer, Outcome, ProcessReport, StepDigest
from trackside.contracts.run_layout import check_key, worker_name
from trackside.environment import CaptureEnvironment, RehearsalEnvironment
from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.pytorch.ground.memory import has_memory, with_memory
from trackside.frameworks.pytorch.sharding.ranks import rank_of_this_process
from trackside.frameworks.pytorch.steps.training_steps import TrainingSteps
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.rehearsed_steps import ScriptEnd
from trackside.rehearsal.kept_state import KeptState
from trackside.rehearsal.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.rehearsal.registry import all_probes
from trackside.rehearsal.step_program import StepProgram
from trackside.rehearsal.step_recorder import StepRecorder
from trackside.rehearsal.subject import Subject, named_state
from trackside.storage.open_store import open_store

_FEWEST_STEPS = 3  # for a statement about values that do not change


class Capture(Protocol):
    """The capture of the same process, which must have ended before the probes call the models.

    Attributes:
        steps: Knows the optimizers that are none of PyTorch's, and the steps that a script makes itself.
    """

    steps: TrainingSteps

    def uninstall(self) -> None:
        """Close the run, and leave the framework as it was."""


class Rehearsal:
    """The rehearsal of one process.

    Args:
        environment: Address of the run.
        settings: Number of steps, and the times allowed.
        capture: The capture of the same process.
    """

    def __init__(self, environment: CaptureEnvironment, settings: RehearsalEnvironment, capture: Capture) -> None:
        self._environment, self._settings, self._capture = environment, settings, capture
        self._guard = _Guard()
        self._recorder = StepRecorder(self._guard, is_others=lambda: in_charge.is_others(capture))
        self._counts: dict[int, int] = {}
        self._first_values: dict[str, torch.Tensor] = {}
        self._digests: list[StepDigest] = []
        self._began_at = 0.0
        self._cleared = 0  # gradients that no step used
        self._end = ScriptEnd()
        self._has_finished = False
        self._is_probing = False
        self._pid = os.getpid()
        self._undo: list[Callable[[], object]] = []

    def install(self) -> None:
        """Begin to record, right after the import of PyTorch."""
        self._recorder.install()
        self._undo = [register_optimizer_step_post_hook(self._stepped).remove, self._replace_zero_grad()]
        self._capture.steps.other_optimizers.ended = self._other_stepped
        atexit.register(self._at_exit)

    def remove(self) -> None:
        """Leave PyTorch as it was."""
        for undo in self._undo:
            undo()
        self._recorder.remove()
        atexit.unregister(self._at_exit)

    @property
    def steps(self) -> int:
        """Number of steps of the optimizer that has made most."""
        return max(self._counts.values(), default=0)

    def _stepped(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if not self._is_mine():
            return
        if self._has_finished:
            self._end.end_script()
        if not self._counts:
            self._began_at = time.monotonic()
        self._counts[id(optimizer)] = self._counts.get(id(optimizer), 0) + 1
        self._guard.attempt("recording a step", lambda: self._record(optimizer))
        is_late = time.monotonic() - self._began_at > self._settings.seconds
        if self.steps >= self._settings.steps or is_late:
            self._finish(is_cut=True)
            self._end.end_script()

    def _other_stepped(self, stand_in: Optimizer) -> None:
        # The end of the capture ends a last step by hand, and a framework with its own adapter counts its steps there.
        if not self._has_finished and not in_charge.is_others(self._capture):
            self._stepped(stand_in, (), {})

    def _replace_zero_grad(self) -> Callable[[], None]:
        """Observe optimizers that clear gradients and never step, for which no step ends the rehearsal."""
        original, rehearsal = Optimizer.zero_grad, self

        @functools.wraps(original)
        def zero_grad(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if not rehearsal._counts and rehearsal._is_mine():
                rehearsal._clearing()
            return original(optimizer, *args, **kwargs)

        skip_frame(zero_grad)
        setattr(Optimizer, "zero_grad", zero_grad)  # noqa: B010 - mypy forbids the plain assignment to a method

        def undo() -> None:
            if Optimizer.zero_grad is zero_grad:
                setattr(Optimizer, "zero_grad", original)  # noqa: B010 - as above

        return undo

    def _clearing(self) -> None:
        if self._has_finished:
            self._end.end_script()
        self._cleared += self._recorder.take_passes() > 0
        if self._cleared >= self._settings.steps:
            self._finish(is_cut=True)
            self._end.end_script()

    def _is_mine(self) -> bool:
        return not self._is_probing and os.getpid() == self._pid and torch.utils.data.get_worker_info() is None

    def _record(self, optimizer: Optimizer) -> None:
        self._recorder.stepped(optimizer)
        if not self._first_values:
            models = [model for _, losses in self._recorder.programs for loss in losses for model in loss.models]
            self._first_values = {n: t.detach().clone() for n, t in named_state(models).items() if has_memory(t)}
        if self._rank().of > 1:
            self._digests.append(self._digest(optimizer))

    def _at_exit(self) -> None:
        """Ask the probes at the end of a script with fewer steps, unless it has failed."""
        has_trained = bool(self._counts) or self._cleared > 0
        if os.getpid() == self._pid and has_trained and not self._has_finished and not hasattr(sys, "last_type"):
            self._finish()

    def _finish(self, *, is_cut: bool = False) -> None:
        self._has_finished = True
        rank = self._rank()
        report = ProcessReport(
            worker_name(rank.number),
            self.steps,
            rank.of,
            is_sharded=_is_sharded(self._recorder.programs),
            digests=tuple(self._digests),
            is_cut=is_cut,
            unused_gradients=0 if self._counts else self._cleared,
        )
        self._guard.attempt("storing what was captured", self._capture.uninstall)
        self._recorder.remove()
        if rank.number == 0 and self._counts:
            self._is_probing = True
            report = self._probed(report)
            self._is_probing = False
        self._store(replace(report, is_done=True))

    def _probed(self, report: ProcessReport) -> ProcessReport:
        """Return the report with the answers, or with the reason for which no probe could answer."""
        try:
            return self._probe_model(report)
        except Exception as error:  # noqa: BLE001 - a mistake of ours is an answer too, never silence
            return replace(report, answers=(Answer(ALL_PROBES, Outcome.NOT_TRIED, describe(error)[:300]),))

    def _probe_model(self, report: ProcessReport) -> ProcessReport:
        end = time.monotonic() + self._settings.probe_seconds
        subject = Subject(
            self._recorder.programs,
            first_values=self._first_values if self.steps >= _FEWEST_STEPS else {},
            time_left=lambda: end - time.monotonic(),
            changes=self._recorder.gradients.changes,
            labels=self._recorder.labels,
            draws=self._recorder.draws,
        )
        if self._guard.is_off and not subject.steps:
            subject.lacks = f"recording the script's steps failed: {self._guard.why}"
        if report.is_sharded:
            subject.lacks = "parameters are sharded over ranks"
        self._store(report)

        def answered(answers: tuple[Answer, ...]) -> None:
            self._store(replace(report, answers=answers))

        return replace(report, answers=answer_all(subject, all_probes(), answered=answered))

    def _store(self, report: ProcessReport) -> None:
        self._guard.attempt(
            "storing the answers of the probes",
            lambda: open_store(self._environment.run_uri).put(check_key(report.worker), report.to_json().encode()),
        )

    def _rank(self) -> Rank:
        return rank_of_this_process(self._environment)

    def _digest(self, optimizer: Optimizer) -> StepDigest:
        newest = next((losses[-1] for known, losses in self._recorder.programs if known is optimizer), None)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        batch = _digest_of(newest.inputs()) if newest is not None else ""
        return StepDigest(self._counts[id(optimizer)], _digest_of(parameters), batch)


def answer_all(
    subject: Subject,
    probes: Sequence[Probe],
    *,
    answered: Callable[[tuple[Answer, ...]], object] = lambda answers: None,
) -> tuple[Answer, ...]:
    """Return the answer of each probe. Models, gradients and random numbers are afterwards as before, bit for bit.

    Args:
        subject: The recorded step.
        probes: The probes, in their order.
        answered: Called with all answers so far, after each.
    """
    answers: list[Answer] = []
    lacks = subject.lacks or _within(subject, lambda: "" if subject.is_rebuilt() else subject.lacks)
    for probe in probes:
        began = time.monotonic()
        if lacks:
            answer = Answer(probe.name, Outcome.NOT_TRIED, lacks)
        elif subject.time_left() <= 0:
            answer = Answer(probe.name, Outcome.NOT_TRIED, "the time for probes is up")
        elif probe.needs_numbers and subject.is_lost:
            answer = Answer(probe.name, Outcome.NOT_TRIED, "the loss is no number any more")
        else:
            answer = _answered(subject, probe)
        answers.append(answer.lasting(round(time.monotonic() - began, 3)))
        answered(tuple(answers))
    return tuple(answers)


def _answered(subject: Subject, probe: Probe) -> Answer:
    kept = KeptState(subject.models)
    try:
        return probe.answer(subject)
    except NotTriedError as error:
        return Answer(probe.name, Outcome.NOT_TRIED, str(error))
    except DoesNotApplyError as error:
        return Answer(probe.name, Outcome.DOES_NOT_APPLY, str(error))
    except Exception as error:  # noqa: BLE001 - a model may not bear the probe's call
        return Answer(probe.name, Outcome.NOT_TRIED, f"the model or its loss raised {describe(error)[:300]}")
    finally:
        kept.restore()


def _within(subject: Subject, answer: Callable[[], str]) -> str:
    kept = KeptState(subject.models)
    try:
        return answer()
    except Exception as error:  # noqa: BLE001 - as above
        return f"a replay of its step raised {describe(error)[:300]}"
    finally:
        kept.restore()


class _Guard(Guard):
    """A guard that keeps the reason for which it was switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.why = ""

    def switch_off(self, doing: str, error: Exception) -> None:
        self.is_off = True
        self.why = self.why or f"{doing}: {describe(error)}"


def _digest_of(tensors: Sequence[torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in with_memory(tensors):
        value = tensor.detach().cpu().contiguous()
        digest.update(str((tuple(value.shape), value.dtype)).encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return digest.hexdigest()[:16]


def _is_sharded(programs: Sequence[tuple[Optimizer, tuple[StepProgram, ...]]]) -> bool:
    """Return True if ranks hold parts of the parameters: FSDP's flat ones, or distributed tensors."""
    kinds = {
        type(parameter).__name__
        for optimizer, _ in programs
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    return not kinds.isdisjoint({"FlatParameter", "DTensor"})
