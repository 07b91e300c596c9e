"""All sources of PyTorch, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trackside.capture.session import RunSession
from trackside.frameworks.pytorch.facts.detector import Detectors, Watch
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsSource
from trackside.frameworks.pytorch.facts.program_facts import program_facts
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.numbering import Numbering
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.modes.evaluations import Evaluations
from trackside.frameworks.pytorch.modules.source import ModuleSource, TrainedModules
from trackside.frameworks.pytorch.optimizers.raw_gradients import RawGradients
from trackside.frameworks.pytorch.optimizers.source import OptimizerSource, SkippedSteps
from trackside.frameworks.pytorch.saving.checkpoint_contents import CheckpointContents
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver
from trackside.frameworks.pytorch.statistics.gradient_numbers import GradientNumbers
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics
from trackside.frameworks.pytorch.statistics.update_size import UpdateSize
from trackside.frameworks.pytorch.steps.losses import LossSource
from trackside.frameworks.pytorch.steps.parameters import ParameterSource
from trackside.frameworks.pytorch.steps.strategy import MakeStrategy, Observer
from trackside.frameworks.pytorch.timing.timing import Timing
from trackside.frameworks.shared.adapter import Sources

ExtraSource = Callable[[RunSession, TrainedModules], object]


class PyTorchSources:
    """The sources of one session, by the data they capture; `all` calls them as steps go on.

    Args:
        session: The session that they add to.
        observer: Called with their observations.
        strategy: Makes the strategy that decides where a step ends.
        extra: Makes further sources.
        sees_start: True if the hooks are there before the script makes its models.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        observer: Observer,
        strategy: MakeStrategy,
        extra: Sequence[ExtraSource] = (),
        sees_start: bool = False,
    ) -> None:
        engine, guard = session.engine, session.guard
        self._engine = engine
        self.names = ParameterNames()
        self.saver = TensorSaver(engine, guard, shards=session.shards)
        self.modules = TrainedModules(self.names)
        self.numbering = Numbering()
        self.loss_inputs = LossInputSource(engine, guard, saver=self.saver, numbering=self.numbering)
        self.optimizers = OptimizerSource(engine, saver=self.saver, names=self.names)
        self.statistics = PyTorchStatistics(session.statistics, names=self.names, optimizer_name=self.optimizers.name)
        self.evaluations = Evaluations(
            session,
            modules=self.modules,
            counted=observer.facts_changed,
            is_compiler_used=lambda: self.calls.eager.is_compiler_used,
        )
        self.validation = self.evaluations.validation(
            saver=self.saver,
            loss_inputs=self.loss_inputs,
            changed=observer.validation_changed,
            ended=observer.validation_step_ends,
            reads_every_loss=lambda loss: session.statistics.is_on and not self.statistics.numbers.is_late(loss),
        )
        self.strategy = strategy(engine, self.names, self.validation)
        self.gradient_numbers = GradientNumbers(
            self.statistics,
            is_of_training=lambda place: self.facts.has_loss_at(place),  # noqa: PLW0108 - made below
            outside=self.names.parameters_outside,
            protect=Fuse(guard, "watching whether gradients are cleared").protect,
        )
        self.checkpoints = CheckpointContents(self.names, changed=self._facts_changed)
        self.detectors = Detectors(self._make_watch(sees_start=sees_start), guard)
        self.calls = self._make_calls(session)
        self.update_size = UpdateSize(self.statistics, protect=Fuse(guard, "measuring the size of updates").protect)
        self.raw_gradients = RawGradients(
            engine,
            saver=self.saver,
            modules=self.modules,
            protect=Fuse(guard, "watching gradients before clipping").protect,
            clipped=self.gradient_numbers.clipped,
        )
        self.timing = Timing(
            session,
            modules=self.modules,
            is_evaluating=lambda: self.validation.is_on,
            is_compiler_used=lambda: self.calls.eager.is_compiler_used,
            pass_met=self.detectors.pass_met,
        )
        self.batches = self.timing.batches
        self.skipped_steps = SkippedSteps(
            engine,
            protect=Fuse(guard, "counting skipped steps").protect,
            skipped=observer.step_skipped,
            read_later=self.statistics.read_later,
        )
        self.facts = self._make_facts(session)
        self.losses = LossSource(
            session,
            statistics=self.statistics,
            saver=self.saver,
            validation=self.validation,
            inputs=self.loss_inputs,
            facts=self.facts,
        )
        self.parameters = ParameterSource(
            session,
            names=self.names,
            modules=self.modules,
            saver=self.saver,
            raw_gradients=self.raw_gradients,
            optimizers=self.optimizers,
        )
        self.all = Sources(
            self.optimizers,
            self.parameters,
            self.validation,
            self.raw_gradients,
            self.skipped_steps,
            self.calls,
            self.loss_inputs,
            self.numbering,
            self.batches,
            self.losses.looks,
            self.timing.phases,
            self.timing.fetches,
            self.timing.queues,
            self.timing.windows,
            self.gradient_numbers,
            self.facts,
            self.detectors,
            *(make(session, self.modules) for make in extra),
        )

    def training_began(self, *, is_reduced: bool) -> None:
        """Note that the first optimizer step is about to be made, and the session has begun."""
        if is_reduced:
            self.parameters.reductions.start()
        self.saver.training_began()
        self.calls.trial_calls = None
        self.validation.training_began()

    def drop_unsettled(self) -> None:
        """Drop everything added to the open step since its last `settle`: it leads to no step."""
        self._engine.open_step.drop_unsettled()
        for drop in self.all.drop_unsettled:
            drop(self._engine.mode)

    def look_ahead(self, *, sees_calls: bool) -> None:
        """Observe calls of modules if the open step, a validation or `sees_calls` needs them."""
        self.calls.look_ahead(is_validating=self.validation.needs_calls() or sees_calls)

    def stand_down(self) -> None:
        """Remove everything with a noticeable cost, once capture is switched off."""
        self.calls.remove()
        self.validation.end()

    def _make_calls(self, session: RunSession) -> ModuleSource:
        return ModuleSource(
            session.engine,
            fuse=Fuse(session.guard, "watching modules"),
            saver=self.saver,
            modules=self.modules,
            watcher=self.strategy.watcher(),
            detectors=self.detectors,
            loss_inputs=self.loss_inputs,
            numbering=self.numbering,
            is_eager_allowed=session.request.compiled == "eager_step",
        )

    def _make_watch(self, *, sees_start: bool) -> Watch:
        """Return the training as detectors see it; what it asks of later sources it asks during the training."""
        return Watch(
            changed=self._facts_changed,
            steps=lambda: self.facts.steps,
            passes=lambda: self.gradient_numbers.order.passes,
            names=self.names,
            is_first_look=lambda: not self.facts.has_gathered,
            sees_start=sees_start,
            clipping=self.gradient_numbers.clipping_places,
            in_training_mode=self.evaluations.in_training_mode,
            random=self.evaluations.random,
            copies=self.evaluations.copies,
            checkpoints=self.checkpoints,
            set_to_train=self.validation.set_to_train,
        )

    def _facts_changed(self) -> None:
        self.facts.look_soon()

    def _make_facts(self, session: RunSession) -> ModelFactsSource:
        return ModelFactsSource(
            names=self.names,
            optimizer_name=self.optimizers.name,
            program=lambda: program_facts(
                session.environment,
                has_grad_scaler=self.skipped_steps.has_scaler,
                is_compiled=self.calls.eager.is_compiler_used,
            ),
            detectors=self.detectors,
            protect=Fuse(session.guard, "recording what the model is made of").protect,
        )

    def optimizer_created(self, optimizer: Any) -> None:
        """Watch the parameters of a new optimizer."""
        self.modules.optimizer_created(optimizer)
        self.facts.optimizer_created(optimizer)
