"""The observers of evaluations, put together: in eval mode, in training mode, and with a live dropout."""

from __future__ import annotations

from collections.abc import Callable

import torch

from trackside.capture.session import RunSession
from trackside.capture.steps.step_engine import TRAIN
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.modes.random_evaluation import RandomEvaluation
from trackside.frameworks.pytorch.modes.stale_copies import StaleCopies
from trackside.frameworks.pytorch.modes.still_copies import StillCopies
from trackside.frameworks.pytorch.modes.untrained_models import UntrainedModels
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.modes.validation_in_training_mode import ValidationInTrainingMode
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver


class Evaluations:
    """The observers of evaluations of one session.

    Attributes:
        in_training_mode: Counts evaluations in training mode.
        random: Counts evaluations with a live dropout.
        copies: Counts evaluations of copies with stale statistics.
        still: Counts evaluations of copies that never change.
        untrained: Counts evaluations of models that nothing has trained.

    Args:
        session: The session that they add to.
        modules: The trained modules.
        counted: Called after each evaluation that either of them counts.
        is_compiler_used: Returns True once the script uses torch.compile.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        modules: TrainedModules,
        counted: Callable[[], None],
        is_compiler_used: Callable[[], bool],
    ) -> None:
        self._session, self._modules, self._counted = session, modules, counted
        self._validation: Validation | None = None
        self.copies = StaleCopies()
        self.still = StillCopies()
        self.untrained = UntrainedModels()
        self.in_training_mode = ValidationInTrainingMode(
            modules=modules,
            step=lambda: session.engine.mode_step(TRAIN),
            counted=counted,
            set_to_train=lambda: self._validation is not None and self._validation.was_set_to_train,
            is_compiler_used=is_compiler_used,
            fuse=Fuse(session.guard, "watching for evaluations in training mode"),
        )
        self.random = RandomEvaluation(
            counted=counted,
            is_compiler_used=is_compiler_used,
            fuse=Fuse(session.guard, "watching for dropout in evaluations"),
        )

    def validation(
        self,
        *,
        saver: TensorSaver,
        loss_inputs: LossInputSource,
        changed: Callable[[], None],
        ended: Callable[..., None],
        reads_every_loss: Callable[[torch.Tensor], bool],
    ) -> Validation:
        """Return the observer of evaluations in eval mode, which reports to the others; see `Validation`."""

        def look_begins(is_of_every_step: bool) -> bool:
            if is_of_every_step and self._session.rest.is_on:
                return False  # else no step would be at rest
            validation.begins()
            return True

        self.in_training_mode.look_begins = look_begins
        validation = Validation(
            self._session.engine,
            modules=self._modules,
            saver=saver,
            loss_inputs=loss_inputs,
            changed=changed,
            ended=ended,
            reads_every_loss=reads_every_loss,
            in_training_mode=self.in_training_mode,
            random=self.random,
            copies=self.copies,
            still=self.still,
            untrained=self.untrained,
            copy_counted=self._counted,
            fuse=Fuse(self._session.guard, "watching evaluation"),
        )
        self._validation = validation
        return validation
