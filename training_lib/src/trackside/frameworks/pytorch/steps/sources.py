"""All sources of PyTorch, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trackside.capture.session import RunSession
from trackside.frameworks.pytorch.data.batches import BatchSource
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.numbering import Numbering
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.modes.evaluations import Evaluations
from trackside.frameworks.pytorch.modules.source import ModuleSource, TrainedModules
from trackside.frameworks.pytorch.optimizers.raw_gradients import RawGradients
from trackside.frameworks.pytorch.optimizers.source import OptimizerSource, SkippedSteps
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver
from trackside.frameworks.pytorch.statistics.gradient_numbers import GradientNumbers
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics
from trackside.frameworks.pytorch.statistics.update_size import UpdateSize
from trackside.frameworks.pytorch.steps.facts import WatchedFacts
from trackside.frameworks.pytorch.steps.losses import LossSource
from trackside.frameworks.pytorch.steps.parameters import ParameterSource
from trackside.frameworks.pytorch.steps.strategy import MakeStrategy, Observer
from trackside.frameworks.shared.adapter import Sources
from trackside.products import PYTORCH_TIMING, product

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
        watched = WatchedFacts(
            session,
            names=self.names,
            optimizer_name=self.optimizers.name,
            numbers=self.gradient_numbers,
            evaluations=self.evaluations,
            set_to_train=self.validation.set_to_train if sees_start else None,
            has_grad_scaler=lambda: self.skipped_steps.has_scaler,
            is_compiled=lambda: self.calls.eager.is_compiler_used,
        )
        self.facts, self.detectors, self.checkpoints = watched.source, watched.detectors, watched.checkpoints
        self.calls = self._make_calls(session)
        self.update_size = UpdateSize(self.statistics, protect=Fuse(guard, "measuring the size of updates").protect)
        self.raw_gradients = RawGradients(
            engine,
            saver=self.saver,
            modules=self.modules,
            protect=Fuse(guard, "watching gradients before clipping").protect,
            clipped=self.gradient_numbers.clipped,
        )
        self.timing = product(PYTORCH_TIMING).Timing(
            session,
            modules=self.modules,
            is_evaluating=lambda: self.validation.is_on,
            is_compiler_used=lambda: self.calls.eager.is_compiler_used,
            pass_met=self.detectors.pass_met,
            numbers=self.gradient_numbers,
        )
        self.batches: BatchSource = self.timing.batches
        self.batches.loader_begins = self.evaluations.in_training_mode.pass_begins
        self.skipped_steps = SkippedSteps(
            engine,
            protect=Fuse(guard, "counting skipped steps").protect,
            skipped=observer.step_skipped,
            read_later=self.statistics.read_later,
        )
        self.losses = LossSource(
            session,
            statistics=self.statistics,
            saver=self.saver,
            validation=self.validation,
            inputs=self.loss_inputs,
            facts=self.facts,
            tokens=self.batches.tokens.newest,
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

    def optimizer_created(self, optimizer: Any) -> None:
        """Watch the parameters of a new optimizer."""
        self.modules.optimizer_created(optimizer)
        self.facts.optimizer_created(optimizer)
