"""The parts of a trial, one for each kind of question, built once and connected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trackside.storage.store import Store
from trackside.trial.complete_steps import CompleteSteps
from trackside.trial.completeness import Completeness
from trackside.trial.damage import Damage
from trackside.trial.membership import Membership
from trackside.trial.model_facts import ModelFactsReader
from trackside.trial.record_reader import RecordReader
from trackside.trial.recorded import Recorded
from trackside.trial.recorded_statistics import RecordedStatistics
from trackside.trial.saved_tensors import SavedTensors
from trackside.trial.step_index import StepIndex
from trackside.trial.tensor_columns import TensorColumns
from trackside.trial.tensor_names import TensorNames
from trackside.trial.tensor_values import TensorValues
from trackside.trial.watermarks import Watermarks


@dataclass(frozen=True, eq=False)
class TrialParts:
    """The parts of a trial.

    uri            the location of the tensors
    damage         files that could not be read, steps that capture lost
    facts          facts about the training program
    names          tensors and collections
    completeness   reading of what is new, the last complete step
    steps          complete steps, their modes and workers
    saved          the steps and workers that saved a tensor
    columns        statistics over steps
    values         whole tensors
    """

    uri: str
    damage: Damage
    facts: ModelFactsReader
    names: TensorNames
    completeness: Completeness
    steps: CompleteSteps
    saved: SavedTensors
    columns: TensorColumns
    values: TensorValues

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
