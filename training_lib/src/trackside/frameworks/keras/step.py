"""The step under way: its losses, its tensors, its end. Batches of `fit` and loops by hand share it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from trackside.capture.program_facts import ProgramFactsFile
from trackside.capture.session import Owner, Rank, RunSession
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.run_layout import worker_name
from trackside.frameworks import in_charge
from trackside.frameworks.keras.replicas import number_of_replicas
from trackside.frameworks.keras.values import array_of, named_parts

LOSS = "loss"


class KerasStep:
    """The step of a session.

    Attributes:
        batch_mode: The mode of the batch of `fit`, `evaluate` or `predict` that is under way; "" outside of one.
        losses: The losses so far; the first one is recorded.
        is_refused: True once another adapter has the run of this process.

    Args:
        session: The run.
        adapter: The adapter, as `in_charge` knows it.
        owner: Flushed and closed at the end of the process.
    """

    def __init__(self, session: RunSession, adapter: object, owner: Owner) -> None:
        self._session, self._adapter, self._owner = session, adapter, owner
        self._engine, self._statistics = session.engine, session.statistics
        self.batch_mode = ""
        self.losses: list[float] = []
        self.is_refused = False

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
        program = ProgramFacts(framework="keras", framework_version=keras.__version__, world_size=rank.of)
        facts = ProgramFactsFile(
            ModelFacts(0, (), (), (), (), program),
            session.open_folder,
            worker=worker_name(rank.number),
            start=session.start_position,
        )
        session.begin(rank, owner=self._owner, facts=[facts] if session.stores_run else [])

    def add_loss(self, loss: float) -> None:
        """Add a loss; with several replicas their losses are parts of one."""
        if self.losses and number_of_replicas() > 1:
            self.losses[0] += loss
        else:
            self.losses.append(loss)

    def end(self) -> None:
        """End the step, with its loss."""
        engine = self._engine
        for loss in self.losses[:1]:
            if engine.due.losses:
                engine.open_step.add_loss(LOSS, np.array(loss, np.float64))
            self._statistics.add_loss(LOSS, loss, mode=engine.mode)
        self.losses = []
        self._statistics.end_step(engine)
        engine.end_step()

    def add_parts(self, *parts: tuple[str, Any]) -> None:
        """Add inputs, labels and the like that the step saves: (collection, value)."""
        for kind, part in parts:
            if kind in self._engine.due.kinds and part is not None:
                self.add("inputs" if kind == "model_inputs" else kind, part, frozenset({kind}))

    def add(self, name: str, value: Any, collections: frozenset[str]) -> None:
        """Add a tensor, or each in a list or a mapping, if the step saves it."""
        open_step = self._engine.open_step
        for full_name, part in named_parts(name, value):
            if open_step.wants(full_name, collections=collections):
                array = array_of(part)
                if array is not None:
                    open_step.add(full_name, array, collections=collections)
