"""A log written into a store as a run, by the library's own writers, so that rules and reports read it as any other.

Each point of a training series is a number of a step in mode TRAIN, each of an evaluation one in mode EVAL. The steps
between two points are steps at rest, of which nothing is recorded: rules that ask for neighbours, or for watched steps,
get the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.model_facts import LOG, ModelFacts, ProgramFacts
from trackside.contracts.run.language_numbers import names_of
from trackside.contracts.run.recorded_names import LOGGED, RESTED_STEPS
from trackside.contracts.run_layout import END_MARKER_KEY, RunLocation, collections_key, model_facts_key, worker_name
from trackside.imported.histograms import L2
from trackside.imported.names import tensor_of, words_of
from trackside.imported.numbering import STEPS, NumberedLog
from trackside.imported.points import Points, thinned
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.model_facts import encode_facts
from trackside.records.statistics_segment import Schema, StatisticColumn
from trackside.storage.open_store import OpenStore
from trackside.storage.store import Store

MOST_ROWS = 1000  # of a run: judging a row costs one millisecond or two
GRADIENT = "gradient/"
GRADIENT_NORM = f"{GRADIENT}all"
RATE = "hyperparameters/optimizer/group_0/lr"
_WORKER = worker_name(0)
_ROWS_AT_ONCE = 1000
_NAMES = ("mean", "nonfinite_count", "nan_count")  # of a loss; of a gradient's norm `l2` in place of the mean

Key = tuple[str, str]


@dataclass(frozen=True)
class WrittenRun:
    """The run of a log.

    uri       its location, for the function that opens stores
    rows      number of steps with a number of the training
    evaluations  number of evaluations
    last_step    newest step
    merged    number of logged points that each is the mean of; 1 for a log of usual length
    """

    uri: str
    rows: int
    evaluations: int
    last_step: int
    merged: int


def write_run(
    found: NumberedLog, *, uri: str, stores: OpenStore, has_ended: bool = True, most_rows: int = MOST_ROWS
) -> WrittenRun:
    """Write a log as a run.

    Args:
        found: The log.
        uri: The location of the run; nothing may be in it.
        stores: Opens the stores of a location.
        has_ended: The log grows no more.
        most_rows: The most points of a series.

    Errors: those of the store.
    """
    location = RunLocation(uri)
    train, merged = _columns_of_training(found, most_rows)
    evaluated = _columns_of_evaluations(found, most_rows)
    tensors = stores(location.tensors)
    _store_collections(tensors, found)
    _store_facts(tensors, found.log.framework or LOG)
    log = StatisticsLog(stores(location.statistics), worker=_WORKER, started_ms=0)
    _record(log, evaluated, mode="EVAL")
    steps = _record(log, train, mode="TRAIN", has_rests=found.unit == STEPS)
    log.close()
    if has_ended:
        tensors.put(END_MARKER_KEY, b"")
    every = [points.steps for points in (*train.values(), *evaluated.values()) if len(points)]
    evaluations = max((len(points) for points in evaluated.values()), default=0)
    return WrittenRun(uri, len(steps), evaluations, max((int(own[-1]) for own in every), default=-1), merged)


def _columns_of_training(found: NumberedLog, most_rows: int) -> tuple[dict[Key, Points], int]:
    meanings, merged = found.meanings, 1
    columns = _columns_of_tensors(found, most_rows)
    for tensor, column in meanings.losses.items():
        points = thinned(found.series[column], most_rows)
        merged = max(merged, points.merged)
        columns |= _with_counts(tensor, "mean", points)
    if meanings.norm:
        columns |= _with_counts(GRADIENT_NORM, "l2", thinned(found.series[meanings.norm], most_rows))
    if meanings.rate:
        rates = found.series[meanings.rate]
        columns[RATE, "mean"] = thinned(rates.kept(np.isfinite(rates.values)), most_rows)
    counters = {found.meanings.step, found.meanings.epoch}
    for column, name in names_of([name for name in found.series if name not in counters]).items():
        columns |= _with_counts(LOGGED + name, "mean", thinned(found.series[column], most_rows))
    return columns, merged


def _columns_of_tensors(found: NumberedLog, most_rows: int) -> dict[Key, Points]:
    """Return the numbers of histograms of weights and gradients."""
    names = {tag: tensor_of(tag) for tag, _ in found.tensors}
    columns: dict[Key, Points] = {}
    for (tag, statistic), points in found.tensors.items():
        if names[tag] and (statistic == L2 or names[tag].startswith(GRADIENT)):
            columns[names[tag], statistic] = thinned(points, most_rows)
    return columns


def _columns_of_evaluations(found: NumberedLog, most_rows: int) -> dict[Key, Points]:
    columns: dict[Key, Points] = {}
    for one in found.meanings.evaluations:
        columns |= _with_counts(one.loss, "mean", thinned(found.series[one.column], most_rows))
    return columns


def _with_counts(tensor: str, statistic: str, points: Points) -> dict[Key, Points]:
    """Return the columns of a number: itself, and whether it is finite, as capture counts it."""
    broken, nan = ~np.isfinite(points.values), np.isnan(points.values)
    values = (points.values, broken.astype(np.float64), nan.astype(np.float64))
    names = (statistic, *_NAMES[1:])
    return {
        (tensor, name): Points(points.steps, own, points.times, points.merged)
        for name, own in zip(names, values, strict=True)
    }


def _record(
    log: StatisticsLog, columns: Mapping[Key, Points], *, mode: str, has_rests: bool = False
) -> NDArray[np.int64]:
    """Record one row for each step of the columns. Return the steps."""
    if not columns:
        return np.empty(0, np.int64)
    steps = np.unique(np.concatenate([points.steps for points in columns.values()]))
    values = np.zeros((len(steps), len(columns) + has_rests))
    measured = np.zeros(values.shape, np.bool_)
    times = np.zeros(len(steps))
    for place, points in enumerate(columns.values()):
        rows = np.searchsorted(steps, points.steps)
        values[rows, place], measured[rows, place] = points.values, True
        times[rows] = points.times
    if has_rests and len(steps) > 1:
        gaps = np.diff(steps) - 1
        values[1:, -1], measured[1:, -1] = gaps, gaps > 0
    keys = [*columns, *([(RESTED_STEPS, "mean")] if has_rests else [])]
    table = log.open_table(Schema(tuple(StatisticColumn(tensor, name, "f8") for tensor, name in keys)))
    for row, step in enumerate(steps.tolist()):
        table.record(
            values[row], step=step, mode=mode, mode_step=step, wall_time=float(times[row]), measured=measured[row]
        )
        if row % _ROWS_AT_ONCE == _ROWS_AT_ONCE - 1:
            log.flush()
    return steps


def _store_collections(tensors: Store, found: NumberedLog) -> None:
    losses = dict.fromkeys([*found.meanings.losses, *(one.loss for one in found.meanings.evaluations)])
    known = dict.fromkeys(filter(None, (tensor_of(tag) for tag, _ in found.tensors)))
    gradients = [*([GRADIENT_NORM] if found.meanings.norm else []), *(one for one in known if one.startswith(GRADIENT))]
    weights = [one for one in known if not one.startswith(GRADIENT)]
    biases = [one for one in weights if words_of(one.rpartition("/")[2])[-1].startswith("bias")]
    records: Sequence[CollectionRecord] = (
        CollectionRecord("losses", tensor_names=tuple(losses)),
        CollectionRecord("gradients", tensor_names=tuple(gradients)),
        CollectionRecord("weights", tensor_names=tuple(one for one in weights if one not in biases)),
        CollectionRecord("biases", tensor_names=tuple(biases)),
    )
    tensors.put(collections_key(_WORKER), encode_collections(records, num_workers=1))


def _store_facts(tensors: Store, framework: str) -> None:
    facts = ModelFacts(program=ProgramFacts(framework=framework))
    tensors.put(model_facts_key(_WORKER), encode_facts([facts]))
