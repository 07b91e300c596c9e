"""The three watches for evaluations, put together: in eval mode, in training mode, and with live dropout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from trackside.capture.guard import Guard
from trackside.capture.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.modes.random_evaluation import RandomEvaluation
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.modes.validation_in_training_mode import ValidationInTrainingMode
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver


@dataclass(frozen=True, eq=False)
class EvaluationWatches:
    """The watches of one session.

    validation        in eval mode
    in_training_mode  in training mode, with gradients off
    random            in eval mode, with dropout that is on
    """

    validation: Validation
    in_training_mode: ValidationInTrainingMode
    random: RandomEvaluation

    @classmethod
    def of(
        cls,
        engine: StepEngine,
        guard: Guard,
        *,
        modules: TrainedModules,
        saver: TensorSaver,
        loss_inputs: LossInputSource,
        counted: Callable[[], None],
        changed: Callable[[], None],
        ended: Callable[[str], None],
        reads_every_loss: Callable[[torch.Tensor], bool],
        is_compiler_used: Callable[[], bool],
    ) -> EvaluationWatches:
        """Build and connect them. `counted` is called for evaluations without steps; the rest is for `Validation`."""
        in_training_mode = ValidationInTrainingMode(
            modules=modules,
            step=lambda: engine.step,
            counted=counted,
            fuse=Fuse(guard, "watching for evaluations in training mode"),
        )
        random = RandomEvaluation(
            counted=counted,
            is_compiler_used=is_compiler_used,
            fuse=Fuse(guard, "watching for dropout in evaluations"),
        )
        validation = Validation(
            engine,
            modules=modules,
            saver=saver,
            loss_inputs=loss_inputs,
            changed=changed,
            ended=ended,
            reads_every_loss=reads_every_loss,
            in_training_mode=in_training_mode,
            random=random,
            fuse=Fuse(guard, "watching evaluation"),
        )
        return cls(validation, in_training_mode, random)
