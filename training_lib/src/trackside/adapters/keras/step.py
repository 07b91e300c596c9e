"""The step under way: its losses, its tensors, its end. Batches of `fit` and loops by hand share it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trackside.adapters.keras.facts import KerasFacts
from trackside.adapters.keras.names import Names
from trackside.adapters.keras.replicas import number_of_replicas
from trackside.adapters.keras.values import array_of, named_parts
from trackside.adapters.shared.listening import ListeningAdapter
from trackside.capture.session import Rank
from trackside.capture.steps.last_step import StepPosition
from trackside.frameworks.shared import in_charge

LOSS = "loss"
WITHOUT_TENSORS = frozenset({"losses", "metrics"})  # recorded of compiled steps, too


class MeanLosses:
    """The mean loss over the batches of an epoch so far, by mode, where a batch's own loss is not seen."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, float] | None] = {}  # batches, and their mean; None: it is not known

    def begin(self, mode: str) -> None:
        """Begin an epoch."""
        self._newest[mode] = 0, 0.0

    def go_on(self, mode: str, batch: int | None, mean: float | None) -> None:
        """Go on after batches that were not seen, the last of them with this number; None if it is not known."""
        self._newest[mode] = None if batch is None or mean is None else (batch + 1, mean)

    def loss(self, mode: str, batch: int, mean: float) -> float | None:
        """Return the loss of the batches since the newest mean, up to this one, after which it is `mean`."""
        newest, self._newest[mode] = self._newest.get(mode, (0, 0.0)), (batch + 1, mean)
        if newest is None or newest[0] > batch:
            return None
        count, before = newest
        return (mean * (batch + 1) - before * count) / (batch + 1 - count)


class KerasStep:
    """The step of a session.

    Attributes:
        batch_mode: The mode of the batch of `fit`, `evaluate` or `predict` that is under way; "" outside of one.
        losses: The losses so far; the first one is recorded.
        is_refused: True once another adapter has the run of this process.
        is_by_hand: True if the step that ended last was none of `fit`, `evaluate` and `predict`.
        ended: The step that ended last; None before the first.
        means: The mean losses of the epoch.

    Args:
        adapter: The adapter.
        names: The names of saved tensors.
        facts: The facts about the program.
    """

    def __init__(self, adapter: ListeningAdapter, names: Names, facts: KerasFacts) -> None:
        session = adapter.session
        self._session, self._adapter, self._names, self._facts = session, adapter, names, facts
        self._engine, self._statistics = session.engine, session.statistics
        self.batch_mode = ""
        self.is_by_hand = False
        self.ended: StepPosition | None = None
        self.losses: list[float] = []
        self.is_refused = False
        self.means = MeanLosses()

    def is_others(self) -> bool:
        """Return True if another adapter has the run of this process, now or before."""
        self.is_refused = self.is_refused or in_charge.is_others(self._adapter)
        return self.is_refused

    def begin(self) -> None:
        """Begin the run, if it has not begun."""
        session = self._session
        if session.has_begun:
            return
        rank = Rank(session.environment.rank, session.environment.world_size)
        self._adapter.begin_run(rank, self._facts.read(rank.of))

    def add_loss(self, loss: float) -> None:
        """Add a loss; with several replicas their losses are parts of one."""
        if self.losses and number_of_replicas() > 1:
            self.losses[0] += loss
        else:
            self.losses.append(loss)

    def end(self, shown: float | None = None) -> None:
        """End the step, with its loss; `shown` is the loss that Keras shows for it: a mean over the epoch."""
        engine = self._engine
        for loss in self.losses[:1]:
            if not engine.due.losses:
                pass
            elif self._names.loss:
                value = np.array([loss if shown is None else shown])
                engine.open_step.add(self._names.loss, value, collections=frozenset({"losses"}))
            else:
                engine.open_step.add_loss(LOSS, np.array(loss, np.float64))
            self._statistics.add_loss(LOSS, loss, mode=engine.mode)
        self.losses = []
        self.ended = StepPosition(engine.step, engine.mode, engine.mode_step())
        self._adapter.end_step()

    def add_parts(self, *parts: tuple[str, Any]) -> None:
        """Add inputs (`x`), labels (`y`) and `predictions` that the step saves: (which, value)."""
        for which, part in parts:
            name, collections = self._names.parts[which]
            if not self._engine.due.kinds.isdisjoint(collections) and part is not None:
                self.add(name, part, collections & self._engine.due.kinds)

    def add(self, name: str, value: Any, collections: frozenset[str]) -> None:
        """Add a tensor, or each in a list or a mapping, if the step saves it."""
        open_step = self._engine.open_step
        for full_name, part in named_parts(name, value):
            if open_step.wants(full_name, collections=collections):
                array = array_of(part)
                if array is not None:
                    open_step.add(full_name, array, collections=collections)
