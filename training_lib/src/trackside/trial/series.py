"""One tensor of a run over its saved steps, as a user of Python meets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, Problem, RecordError, TensorNotSavedError
from trackside.trial.notebook import html_table
from trackside.trial.selection import Selection
from trackside.trial.statistics import STATISTICS
from trackside.trial.window import Column

if TYPE_CHECKING:
    from trackside.trial.trial import Trial

MOST_HTML_ROWS = 50


@dataclass(frozen=True, eq=False)
class TensorValue:
    """The whole tensor as one worker saved it at one step."""

    step: int
    worker: str
    mode: str
    value: NDArray[np.generic]


class TensorSeries:
    """A tensor over the complete steps at which it was saved. Nothing is read before it is asked for.

    It grows with its trial: after `Trial.refresh` it shows the new steps too.
    """

    def __init__(self, trial: Trial, name: str, selection: Selection) -> None:
        self._trial, self.name, self.selection = trial, name, selection

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps at which any worker saved it, ascending."""
        return tuple(sorted({saved.step for saved in self._trial.saved_steps(self.name, self.selection)}))

    @property
    def workers(self) -> tuple[str, ...]:
        """Workers that saved it, sorted."""
        return tuple(sorted({saved.worker for saved in self._trial.saved_steps(self.name, self.selection)}))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[TensorValue]:
        """Every value of every worker, by step, fetched one at a time.

        A damaged one is left out, and stands in `Trial.damaged`. Errors: `TensorNotSavedError` where only reductions
        were saved, and those of the store.
        """
        saved_steps = self._trial.saved_steps(self.name, self.selection)
        for saved in sorted(saved_steps, key=lambda saved: (saved.step, saved.worker)):
            try:
                value = self._trial.value(self.name, step=saved.step, worker=saved.worker)
            except RecordError:
                continue
            yield TensorValue(saved.step, saved.worker, saved.mode, value)

    @property
    def values(self) -> NDArray[np.generic] | tuple[NDArray[np.generic], ...]:
        """The values in the order of `steps`: shape (steps, *shape), or a tuple where shapes or types differ.

        Fetched anew on each use. Errors: `ConfigurationError` where several workers saved it and none was chosen;
        `RecordError` at a damaged one (iterate instead to have the rest); else as `__iter__`.
        """
        worker = self._only_worker()
        arrays = [self._trial.value(self.name, step=step, worker=worker) for step in self.steps]
        if len({(array.shape, array.dtype) for array in arrays}) == 1:
            return np.stack(arrays)
        return tuple(arrays)

    def value(self, step: int | None = None) -> NDArray[np.generic]:
        """The whole tensor at `step`; without one, at the last. Errors: as `values`, and `TensorNotSavedError`."""
        worker = self._only_worker()
        return self._trial.value(self.name, step=self.steps[-1] if step is None else step, worker=worker)

    def statistic(self, name: str) -> Column:
        """One statistic over the steps. Names: `trackside.trial.statistics.STATISTICS`.

        Errors: `ConfigurationError` for an unknown statistic, or where several workers saved the tensor and none was
        chosen; `TensorNotSavedError` where no step holds numbers that can be read.
        """
        worker = self._only_worker()
        for column in self.columns(name):
            if column.worker == worker:
                return column
        raise TensorNotSavedError(f"No {name} of {self.name!r}: no selected step holds numbers that can be read.")

    def columns(self, statistic: str) -> tuple[Column, ...]:
        """One statistic as a column per worker, sorted by worker; workers without a number are left out.

        Errors: `ConfigurationError` for an unknown statistic, and those of the store.
        """
        return self._trial.selected_columns(self.name, statistic, self.selection)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """`step`, `worker`, `mode` and every statistic, each an array of shape (n,): a row for each step and worker."""
        by_statistic = {name: self.columns(name) for name in STATISTICS}
        first = by_statistic[next(iter(STATISTICS))]
        modes = {(s.step, s.worker): s.mode for s in self._trial.saved_steps(self.name, self.selection)}
        keys = [(int(step), column.worker) for column in first for step in column.steps]
        numbers = {name: _joined(columns) for name, columns in by_statistic.items()}
        return {
            "step": np.array([step for step, _ in keys], np.int64),
            "worker": np.array([worker for _, worker in keys], dtype=np.str_),
            "mode": np.array([modes[key] for key in keys], dtype=np.str_),
            **numbers,
        }

    def to_pandas(self) -> Any:
        """`to_columns` as a pandas.DataFrame. Errors: `ConfigurationError` where pandas is not installed."""
        try:
            pandas = import_module("pandas")
        except ImportError as missing:
            problem = Problem("pandas", "is not installed.", "Install it: pip install pandas")
            raise ConfigurationError([problem], subject="to_pandas") from missing
        return pandas.DataFrame(self.to_columns())

    def __repr__(self) -> str:
        steps, workers = self.steps, self.workers
        span = f"steps {steps[0]} to {steps[-1]}" if steps else "no step saved"
        return f"<TensorSeries {self.name!r}: {len(steps)} saved, {span}, {len(workers)} worker(s)>"

    def _repr_html_(self) -> str:
        columns = self.to_columns()
        count = len(columns["step"])
        shown = range(max(0, count - MOST_HTML_ROWS), count)
        rows = [[_cell(column[row]) for column in columns.values()] for row in shown]
        left_out = f"The newest {MOST_HTML_ROWS} of {count} rows." if count > MOST_HTML_ROWS else ""
        return html_table(repr(self), list(columns), rows, note=left_out)

    def _only_worker(self) -> str:
        workers = self.workers
        if not workers:
            raise TensorNotSavedError(self._why_nothing_is_selected())
        if len(workers) > 1:
            fix = f"Choose one: worker={workers[0]!r} (of {', '.join(workers)})."
            problem = Problem("worker", f"{self.name!r} was saved by {len(workers)} workers.", fix)
            raise ConfigurationError([problem], subject="The selection")
        return workers[0]

    def _why_nothing_is_selected(self) -> str:
        everywhere = sorted({saved.step for saved in self._trial.saved_steps(self.name)})
        if not everywhere:
            return f"{self.name!r} was saved at no complete step of {self._trial.uri} so far."
        stride = everywhere[1] - everywhere[0] if len(everywhere) > 1 else 0
        evenly = f", every {stride}" if stride and everywhere == list(range(*_bounds(everywhere), stride)) else ""
        where = f"at steps {everywhere[0]} to {everywhere[-1]}{evenly}" if stride else f"at step {everywhere[0]} only"
        return f"{self.name!r} was saved at none of the selected steps. The run holds it {where}."


def _bounds(steps: list[int]) -> tuple[int, int]:
    return steps[0], steps[-1] + 1


def _joined(columns: tuple[Column, ...]) -> NDArray[np.float64]:
    return np.concatenate([column.values for column in columns]) if columns else np.empty(0)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value)
