"""The source of model facts and its detectors, put together with the sources that they read."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from torch import nn
from torch.optim.optimizer import Optimizer

from trackside.capture.session import RunSession
from trackside.frameworks.pytorch.facts.detector import Detectors, Watch
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsSource
from trackside.frameworks.pytorch.facts.program_facts import program_facts
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.modes.evaluations import Evaluations
from trackside.frameworks.pytorch.saving.checkpoint_contents import CheckpointContents
from trackside.frameworks.pytorch.statistics.gradient_numbers import GradientNumbers


class WatchedFacts:
    """The facts about the program of one session.

    Attributes:
        source: The source of model facts.
        detectors: Its detectors.
        checkpoints: Compares what the script saves.

    Args:
        session: The session that they add to.
        names: The trained models.
        optimizer_name: Returns the name of an optimizer.
        numbers: Counts backward passes, and sees gradients clipped.
        evaluations: The observers of evaluations.
        set_to_train: The modules whose own `train` was called with True; None where that is not known from the start.
        has_grad_scaler: Returns True once a GradScaler steps the optimizer.
        is_compiled: Returns True once the script compiles.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        names: ParameterNames,
        optimizer_name: Callable[[Optimizer], str],
        numbers: GradientNumbers,
        evaluations: Evaluations,
        set_to_train: weakref.WeakSet[nn.Module] | None,
        has_grad_scaler: Callable[[], bool],
        is_compiled: Callable[[], bool],
    ) -> None:
        self.checkpoints = CheckpointContents(names, changed=self._changed)
        watch = Watch(
            changed=self._changed,
            steps=lambda: self.source.steps,
            passes=lambda: numbers.order.passes,
            names=names,
            is_first_look=lambda: not self.source.has_gathered,
            clipping=numbers.clipping_places,
            in_training_mode=evaluations.in_training_mode,
            random=evaluations.random,
            copies=evaluations.copies,
            still=evaluations.still,
            untrained=evaluations.untrained,
            checkpoints=self.checkpoints,
            set_to_train=set_to_train,
        )
        self.detectors = Detectors(watch, session.guard)
        self.source = ModelFactsSource(
            names=names,
            optimizer_name=optimizer_name,
            program=lambda: program_facts(
                session.environment, has_grad_scaler=has_grad_scaler(), is_compiled=is_compiled()
            ),
            detectors=self.detectors,
            protect=Fuse(session.guard, "recording what the model is made of").protect,
        )

    def _changed(self) -> None:
        self.source.look_soon()
