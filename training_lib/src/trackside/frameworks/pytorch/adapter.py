"""Captures unmodified PyTorch training: losses, weights, biases and gradients, at the optimizer's step.

No thread, file or folder exists before the first optimizer step, so DataLoader workers and other helper processes
create nothing. A step is one step of the optimizer. One that AMP's GradScaler skips does not count: its hooks do not
fire.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, Owner, Rank, RunSession, SessionOptions
from trackside.capture.writing.answers_file import AnswersFile
from trackside.capture.writing.checkpoints import CheckpointsFile
from trackside.capture.writing.writer_parts import BackgroundPart
from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.contracts.run_layout import ANSWERS, worker_name
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsFile
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.optimizers.source import optimizers_beside
from trackside.frameworks.pytorch.saving.checkpoints import ScriptCheckpoints
from trackside.frameworks.pytorch.sharding.ranks import agreed, rank_of_this_process
from trackside.frameworks.pytorch.steps.sources import ExtraSource
from trackside.frameworks.pytorch.steps.strategy import ByOptimizer, MakeStrategy
from trackside.frameworks.pytorch.steps.torch_calls import install_torch_calls, loss_hook, step_hooks
from trackside.frameworks.pytorch.steps.training_steps import TrainingSteps
from trackside.frameworks.shared import in_charge, trainer_logs
from trackside.frameworks.shared.adapter import Undo, machine_parts
from trackside.frameworks.shared.replaced_methods import StepHooks


class PyTorchAdapter:
    """The adapter of PyTorch; see `frameworks/shared/adapter.py`.

    Attributes:
        session: The run.
        steps: The handlers of the events of a step.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        strategy: Makes the strategy that decides where a step ends; by default the optimizers do.
        extra: Makes further sources.
        owner: Flushed and closed at the end of the process, in the place of this adapter.
    """

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        options: SessionOptions | None = None,
        strategy: MakeStrategy = ByOptimizer,
        extra: Sequence[ExtraSource] = (),
        owner: Owner | None = None,
    ) -> None:
        self._owner = owner or self
        self._undo: list[Undo] = []
        self.session = RunSession(environment, options=options, agree=agreed)
        self.steps = TrainingSteps(
            self.session, begin=self.begin, strategy=strategy, extra=extra, sees_start=owner is None
        )

    @property
    def has_begun(self) -> bool:
        """True once the first step has been made, unless this process saves nothing."""
        return self.session.has_begun

    def signs(self) -> UncapturedProcess:
        """Return the signs of training before the first step."""
        return self.steps.before_first_step.signs()

    def install(self) -> None:
        """Register the hooks. Undone by `leave`."""
        steps, sources = self.steps, self.steps.sources
        self._undo = [*install_torch_calls(self.session, steps), *sources.all.install()]
        hooks = steps.resting.hooks = StepHooks([*step_hooks(self.session, steps), *sources.all.step_hooks()])
        steps.resting.loss_hook = StepHooks([loss_hook(self.session, steps)])
        hooks.put_in()
        self._undo.append(hooks.take_out)
        if self.has_begun:
            self._watch_logs()
        for begin in sources.all.step_began:
            begin(self.session.engine.step)

    def leave(self) -> None:
        """Remove every hook, the latest first. The run stays open."""
        self.steps.resting.end()
        for undo in reversed(self._undo):
            undo()
        self._undo = []

    def uninstall(self) -> None:
        """Close the run and remove every hook. Only tests need it."""
        self.close()
        self.session.forget_process_end()
        self.leave()

    def begin(self) -> bool:
        """Begin the run, with the first step of this process. Return False if this process captures none."""
        session, sources = self.session, self.steps.sources
        if torch.utils.data.get_worker_info() is not None or in_charge.is_others(self):
            return False
        self.steps.read_request()
        rank = rank_of_this_process(session.environment)
        self.steps.resting.is_alone = rank.of == 1
        facts = [
            ModelFactsFile(session.open_folder, worker=worker_name(rank.number), start=session.start_position)
            for _ in range(session.stores_run)
        ]
        session.begin(rank, owner=self._owner, facts=facts, idle_parts=functools.partial(self._idle_parts, rank))
        for file in facts:
            sources.facts.connect(file)
        boundary = sources.strategy.boundary
        for optimizer in optimizers_beside(boundary.contains, seen=sources.names.optimizers_seen):
            sources.strategy.created(optimizer)
        sources.training_began(is_reduced=session.is_reduced)
        self._watch_logs()
        return True

    def _watch_logs(self) -> None:
        """Receive the numbers that trainers log; their libraries are imported by the first step."""
        logged = self.session.statistics.logged
        self._undo.append(
            trainer_logs.watch(functools.partial(logged.take, is_of_trainer=True), logged.take_of_trainer)
        )

    def _idle_parts(self, rank: Rank) -> list[BackgroundPart]:
        session, sources = self.session, self.steps.sources
        parts = [sources.saver.slabs, *sources.timing.files(session, rank), *self._checkpoints(rank)]
        return [*parts, *self._answers(rank), *machine_parts(session, rank)]

    def _answers(self, rank: Rank) -> list[BackgroundPart]:
        """Return the file of the answers that the user has allowed to keep; nothing else is kept."""
        session = self.session
        if not (session.environment.shows_samples and session.has_place_for_profiles):
            return []
        file = AnswersFile(
            functools.partial(session.open_folder, ANSWERS),
            worker=worker_name(rank.number),
            start=session.start_position,
        )
        session.statistics.logged.keep_answers = lambda step, given: file.add(step, given.to_keep())
        return [file]

    def _checkpoints(self, rank: Rank) -> list[BackgroundPart]:
        """Watch what the script writes, and return the file that lists it; nothing if the run has no place for it."""
        session = self.session
        if not session.has_place_for_profiles:
            return []
        file = CheckpointsFile(session.open_folder, worker=worker_name(rank.number), start=session.start_position)
        written = ScriptCheckpoints(
            self.steps.sources.checkpoints,
            step=lambda: session.engine.step - 1,
            written=file.add,
            fuse=Fuse(session.guard, "noting where the script writes checkpoints"),
        )
        self._undo += written.install()
        return [file]

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the steps that have ended, within some seconds."""
        self.session.flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """Hand on the last step if an optimizer made it, store what is queued and end the run. Never raises."""
        if self.session.has_begun:
            self.steps.finish()
            self.session.close(timeout_seconds, is_interrupted=is_interrupted)
