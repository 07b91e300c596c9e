"""The parts of a trial, one for each kind of question, built once and connected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from trackside.storage.store import Store
from trackside.trial.complete_steps import CompleteSteps
from trackside.trial.completeness import Completeness
from trackside.trial.facts.checkpoints import CheckpointsReader
from trackside.trial.facts.damage import Damage
from trackside.trial.facts.model_facts import ModelFactsReader
from trackside.trial.recorded.recorded import Recorded
from trackside.trial.recorded.recorded_statistics import RecordedStatistics
from trackside.trial.steps.membership import Membership
from trackside.trial.steps.record_reader import RecordReader
from trackside.trial.steps.saved_step import SavedStep
from trackside.trial.steps.saved_tensors import SavedTensors
from trackside.trial.steps.selection import Selection
from trackside.trial.steps.step_index import StepIndex
from trackside.trial.steps.watermarks import Watermarks
from trackside.trial.tensor_columns import TensorColumns
from trackside.trial.tensor_values import TensorValues
from trackside.trial.tensors.tensor_head import TensorHead
from trackside.trial.tensors.tensor_names import TensorNames


class Named(Protocol):
    """One tensor over a part of its run."""

    @property
    def name(self) -> str:
        """The name of the tensor."""

    @property
    def selection(self) -> Selection:
        """The part of the run."""


@dataclass(frozen=True, eq=False)
class TrialParts:
    """The parts of a trial.

    uri            location of the tensors
    damage         files that could not be read, steps that capture lost
    facts          facts about the training program
    checkpoints    checkpoints that the script wrote
    names          tensors and collections
    completeness   reading of new data, the last complete step
    steps          complete steps, their modes and workers
    saved          the steps and workers that saved a tensor
    columns        statistics over steps
    values         whole tensors
    """

    uri: str
    damage: Damage
    facts: ModelFactsReader
    checkpoints: CheckpointsReader
    names: TensorNames
    completeness: Completeness
    steps: CompleteSteps
    saved: SavedTensors
    columns: TensorColumns
    values: TensorValues

    def heads(self, series: Iterable[Named]) -> dict[str, TensorHead]:
        """Return shape and type of each tensor as it was last saved, from the first bytes of its record.

        Tensors with reductions only, and those that cannot be read, are left out. Records that lie close together cost
        one request, whole steps of a small model one for all.

        Args:
            series: The tensors.
        """
        wanted: dict[SavedStep, list[str]] = {}
        for one in series:
            saved = self.saved.newest(one.name, one.selection)
            if saved is not None:
                wanted.setdefault(saved, []).append(one.name)
        return self.values.heads(wanted)

    @classmethod
    def of(
        cls,
        store: Store,
        statistics: Store | None,
        watermarks: Store | None,
        *,
        will_grow: bool,
        clock: Callable[[], float],
    ) -> TrialParts:
        """Build the parts of one run. Nothing is read. The arguments are those of `Trial`."""
        damage = Damage(store)
        membership = Membership(store, report=damage.report)
        index = StepIndex(store, report=damage.report, membership=membership)
        reader = RecordReader(store, index, report=damage.report)
        recorded = Recorded(RecordedStatistics(statistics, report=damage.report) if statistics is not None else None)
        facts = ModelFactsReader(store, report=damage.report)
        saved = SavedTensors(index)
        names = TensorNames(index, membership, recorded, saved)
        completeness = Completeness(
            store,
            index=index,
            membership=membership,
            recorded=recorded,
            facts=facts,
            names=names,
            watermarks=Watermarks(watermarks, report=damage.report, clock=clock) if watermarks is not None else None,
            will_grow=will_grow,
        )
        return cls(
            uri=store.uri,
            damage=damage,
            facts=facts,
            checkpoints=CheckpointsReader(store, report=damage.report),
            names=names,
            completeness=completeness,
            steps=CompleteSteps(index, recorded, names, completeness, damage),
            saved=saved,
            columns=TensorColumns(
                store, index=index, reader=reader, recorded=recorded, names=names, completeness=completeness
            ),
            values=TensorValues(
                store,
                index=index,
                reader=reader,
                names=names,
                membership=membership,
                completeness=completeness,
                report=damage.report,
            ),
        )
