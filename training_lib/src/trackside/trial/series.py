"""One tensor of a run over its saved steps, for users of Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, Problem, RecordError, TensorNotSavedError
from trackside.extras import pip_install
from trackside.records.modes import MODE_NUMBERS
from trackside.trial.notebook import html_table
from trackside.trial.parts import TrialParts
from trackside.trial.steps.selection import Selection, StepRange
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.window import Column

MOST_HTML_ROWS = 50


@dataclass(frozen=True, eq=False)
class TensorValue:
    """A whole tensor of one worker at one step."""

    step: int
    worker: str
    mode: str
    value: NDArray[np.generic]


class TensorSeries:
    """A tensor over the complete steps at which it was saved. Values are read on request.

    It grows with its trial: after `Trial.refresh` it holds the new steps too.
    """

    def __init__(self, parts: TrialParts, name: str, selection: Selection) -> None:
        self._parts, self.name, self.selection = parts, name, selection
        self._version: object = None  # of the trial, when the rest was looked up
        self._steps: tuple[int, ...] | None = None
        self._workers: tuple[str, ...] | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps at which any worker saved it, ascending."""
        self._forget_what_is_old()
        if self._steps is None:
            self._steps = tuple(sorted({saved.step for saved in self._parts.saved.saved(self.name, self.selection)}))
        return self._steps

    @property
    def workers(self) -> tuple[str, ...]:
        """Workers that saved it, sorted."""
        self._forget_what_is_old()
        if self._workers is None:
            self._workers = self._parts.saved.workers(self.name, self.selection)
        return self._workers

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[TensorValue]:
        """Yield every value of every worker, by step, fetched one at a time.

        A damaged value is left out, and listed in `Trial.damaged`. Errors: `TensorNotSavedError` if only reductions
        were saved, and those of the store.
        """
        saved_steps = self._parts.saved.saved(self.name, self.selection)
        for saved in sorted(saved_steps, key=lambda saved: (saved.step, saved.worker)):
            try:
                value = self._parts.values.value(self.name, step=saved.step, worker=saved.worker)
            except RecordError:
                continue
            yield TensorValue(saved.step, saved.worker, saved.mode, value)

    @property
    def values(self) -> NDArray[np.generic] | tuple[NDArray[np.generic], ...]:
        """The values in the order of `steps`: shape (steps, *shape), or a tuple if shapes or types differ.

        Fetched anew on each use. Errors: `ConfigurationError` if several workers saved it and none was chosen;
        `RecordError` at a damaged value (iterate instead to get the rest); else those of `__iter__`.
        """
        if self._is_sharded():
            arrays = [self._parts.values.whole_value(self.name, step=step, workers=self.workers) for step in self.steps]
        else:
            arrays = self._parts.values.values(self.name, steps=self.steps, worker=self._only_worker())
        if len({(array.shape, array.dtype) for array in arrays}) == 1:
            return np.stack(arrays)
        return tuple(arrays)

    def value(self, step: int | None = None) -> NDArray[np.generic]:
        """Return the whole tensor at `step`; None: at the last step.

        The parts of a tensor that is sharded over the workers (FSDP) are put together, unless a worker was chosen.
        Errors: those of `values`, and `TensorNotSavedError`.
        """
        is_sharded = self._is_sharded()
        worker = "" if is_sharded else self._only_worker()
        if step is None:
            if not self.steps:
                raise TensorNotSavedError(f"{self.name!r} was saved at none of the selected steps.")
            step = self.steps[-1]
        if is_sharded:
            return self._parts.values.whole_value(self.name, step=step, workers=self.workers)
        return self._parts.values.value(self.name, step=step, worker=worker)

    def statistic(self, name: str) -> Column:
        """Return one statistic over the steps. Names: `trackside.trial.tensors.statistics.STATISTICS`.

        Errors: `ConfigurationError` for an unknown statistic, or if several workers saved the tensor and none was
        chosen; `TensorNotSavedError` if no step holds numbers that can be read.
        """
        columns = self.columns(name)
        if not columns or self.workers:  # else it is recorded only
            worker = self._only_worker()
            columns = tuple(column for column in columns if column.worker == worker)
        if not columns:
            raise TensorNotSavedError(f"No {name} of {self.name!r}: no selected step holds numbers that can be read.")
        if len(columns) > 1:
            raise _several_workers(self.name, [column.worker for column in columns])
        return columns[0]

    def in_mode(self, mode: str) -> TensorSeries:
        """Return the same tensor over the steps of one mode."""
        return TensorSeries(self._parts, self.name, replace(self.selection, mode=mode))

    def columns(self, statistic: str) -> tuple[Column, ...]:
        """Return one statistic as a column per worker, sorted by worker. Workers without a number are left out.

        Errors: `ConfigurationError` for an unknown statistic, and those of the store.
        """
        return self._parts.columns.selected(self.name, statistic, self.selection)

    def fullest_statistic(self) -> str:
        """Return the statistic with a number at most steps: `mean` of a loss, which has one of every step."""
        return self._parts.columns.fullest(self.name, self.selection)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return `step`, `worker`, `mode` and every statistic, each an array of shape (n,).

        Each step and worker has a row, sorted by worker, then by step. NaN at a step without such a number: the
        statistics recorded at every step are fewer than those of a saved tensor.
        """
        parts = [self._rows(mode) for mode in ([self.selection.mode] if self.selection.mode else MODE_NUMBERS)]
        worker, step = (np.concatenate([part[key] for part in parts]) for key in ("worker", "step"))
        order = np.lexsort((step, worker))
        return {
            key: np.concatenate([part[key] for part in parts])[order] for key in ("step", "worker", "mode", *STATISTICS)
        }

    def _rows(self, mode: str) -> dict[str, NDArray[Any]]:
        """Return `to_columns` for one mode, in any order."""
        selection = replace(self.selection, mode=mode)
        found = {name: self._parts.columns.selected(self.name, name, selection) for name in STATISTICS}
        by_worker: dict[str, list[tuple[str, Column]]] = {}
        for name, columns in found.items():
            for column in columns:
                by_worker.setdefault(column.worker, []).append((name, column))
        steps = {w: np.unique(np.concatenate([c.steps for _, c in some])) for w, some in by_worker.items()}
        count = sum(map(len, steps.values()))
        rows: dict[str, NDArray[Any]] = {
            "step": np.concatenate([np.empty(0, np.int64), *steps.values()]),
            "worker": np.repeat(np.array([*steps], np.str_), [len(some) for some in steps.values()]),
            "mode": np.full(count, mode),
            **{name: np.full(count, np.nan) for name in STATISTICS},
        }
        first = 0
        for worker, columns_of_worker in by_worker.items():
            for name, column in columns_of_worker:
                rows[name][first + np.searchsorted(steps[worker], column.steps)] = column.values
            first += len(steps[worker])
        return rows

    def to_pandas(self) -> Any:
        """Return `to_columns` as a pandas.DataFrame. Errors: `ConfigurationError` if pandas is not installed."""
        try:
            pandas = import_module("pandas")
        except ImportError as missing:
            problem = Problem("pandas", "is not installed.", f"{pip_install()} pandas")
            raise ConfigurationError([problem], subject="to_pandas") from missing
        return pandas.DataFrame(self.to_columns())

    def __repr__(self) -> str:
        steps, workers = self.steps, self.workers
        span = f"steps {steps[0]} to {steps[-1]}" if steps else "no step saved"
        return f"<TensorSeries {self.name!r}: {len(steps)} saved, {span}, {len(workers)} worker(s)>"

    def _repr_html_(self) -> str:
        columns = self._newest(MOST_HTML_ROWS).to_columns()
        read, saved = len(columns["step"]), len(self._parts.saved.saved(self.name, self.selection))
        shown = range(max(0, read - MOST_HTML_ROWS), read)
        rows = [[_cell(column[row]) for column in columns.values()] for row in shown]
        left_out = f"{len(rows)} of {saved} rows, of the newest steps." if saved > len(rows) else ""
        return html_table(repr(self), list(columns), rows, note=left_out)

    def _newest(self, most_steps: int) -> TensorSeries:
        """Return the series over the newest steps."""
        steps, selected = self.steps, self.selection.steps
        if len(steps) <= most_steps:
            return self
        newest = StepRange(steps[-most_steps], selected.end, selected.stride)
        return TensorSeries(self._parts, self.name, replace(self.selection, steps=newest))

    def _forget_what_is_old(self) -> None:
        version = self._parts.completeness.version
        if version is not self._version:
            self._version, self._steps, self._workers = version, None, None

    def _is_sharded(self) -> bool:
        return self.selection.worker is None and self._parts.values.is_sharded(self.name, workers=self.workers)

    def _only_worker(self) -> str:
        workers = self._workers if self._version is self._parts.completeness.version and self._workers else self.workers
        if not workers:
            raise TensorNotSavedError(self._why_nothing_is_selected())
        if len(workers) > 1:
            raise _several_workers(self.name, workers)
        return workers[0]

    def _why_nothing_is_selected(self) -> str:
        everywhere = sorted({saved.step for saved in self._parts.saved.saved(self.name, Selection())})
        if not everywhere:
            return f"{self.name!r} was saved at no complete step of {self._parts.uri} so far."
        stride = everywhere[1] - everywhere[0] if len(everywhere) > 1 else 0
        evenly = f", every {stride}" if stride and everywhere == list(range(*_bounds(everywhere), stride)) else ""
        where = f"at steps {everywhere[0]} to {everywhere[-1]}{evenly}" if stride else f"at step {everywhere[0]} only"
        return f"{self.name!r} was saved at none of the selected steps. The run holds it {where}."


def _several_workers(name: str, workers: Sequence[str]) -> ConfigurationError:
    fix = f"Choose one: worker={workers[0]!r} (of {', '.join(workers)})."
    problem = Problem("worker", f"{name!r} was saved by {len(workers)} workers.", fix)
    return ConfigurationError([problem], subject="The selection")


def _bounds(steps: list[int]) -> tuple[int, int]:
    return steps[0], steps[-1] + 1


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value)
