"""Reductions that were computed beside the training, and rows of small tensors, added to the files of their step."""

from __future__ import annotations

from trackside.capture.steps.late_tensors import Layout, Row
from trackside.capture.steps.step_tensors import StepTensors
from trackside.records.reduction_records import ReductionRecords, before_others
from trackside.records.step_file import StepFiles

_MOST_LAYOUTS = 64


class ReductionFiles:
    """The known layouts of reductions, and their encoded parts. For the writer thread."""

    def __init__(self) -> None:
        self._records: dict[Layout, ReductionRecords] = {}
        self._noted: set[str] = set()
        self._last_noted: Layout | None = None

    def added(self, step: StepTensors, files: StepFiles) -> StepFiles:
        """Return the files of a step with its reductions and rows in front."""
        for part in reversed(_parts(step)):
            records = self._records.get(part.layout)
            if records is None:
                if len(self._records) == _MOST_LAYOUTS:
                    self._records.clear()
                records = self._records[part.layout] = ReductionRecords(part.layout.record_names)
            encoded = records.encode(
                part.numbers, step=step.step, mode=step.mode, mode_step=step.mode_step, wall_time=step.wall_time
            )
            files = before_others(*encoded, files)
        return files

    def new_names(self, step: StepTensors) -> dict[str, frozenset[str]]:
        """Return new names of reduced tensors and of those in rows, with the collections that an adapter knows."""
        names: dict[str, frozenset[str]] = {}
        for part in _parts(step):
            if part.layout is not self._last_noted:
                names |= dict.fromkeys(sorted(part.layout.names - self._noted), part.layout.collections)
                self._noted |= part.layout.names
                self._last_noted = part.layout
        return names


def _parts(step: StepTensors) -> tuple[Row, ...]:
    return (*step.reduced, *step.rows)
