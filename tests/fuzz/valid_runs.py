"""Small valid runs of every kind, as files by key; what is damaged later starts as one of these."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tests.fuzz.other_readers import CHECKPOINTS
from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.run_layout import (
    CLAIM_KEY,
    END_MARKER_KEY,
    RULE_REQUEST_KEY,
    RunLocation,
    collections_key,
    event_key,
    index_key,
    watermark_key,
)
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.records.collections_file import CollectionRecord, ReductionRecord, encode_collections
from trackside.records.index_file import Index, IndexEntry, ShapeEntry, encode_index
from trackside.records.modes import MODE_NUMBERS
from trackside.records.state_file import STATES_KEY, TrainingState, encode_states
from trackside.records.step_file import encode_step, write_step
from trackside.records.tensor_proto import AnyArray
from trackside.records.tfevents import encode_tensor
from trackside.records.watermark import Watermark, encode_watermark
from trackside.rules.catalogue import default_request
from trackside.storage.local import LocalStore
from trackside.trial.steps.membership import DEFAULT_REGEXES

WALL_TIME = 1_700_000_000.0

Tensors = list[tuple[str, AnyArray]]


@dataclass(frozen=True)
class ValidRun:
    """The files of a whole run by their key relative to it; tensors lie below `debug-output`."""

    name: str
    files: Mapping[str, bytes]


def valid_runs(scratch: Path, corpus: Path | None = None) -> tuple[ValidRun, ...]:
    """Every kind of run, written below `scratch`; with those that lie in the folders of `corpus`."""
    written = []
    for write in (_write_plain, _write_workers, _write_judged, _write_long, _write_captured):
        name = write.__name__.removeprefix("_write_")
        folder = scratch / name
        write(RunLocation(str(folder)))
        written.append(ValidRun(name, files_of(folder)))
    given = sorted(folder for folder in corpus.iterdir() if folder.is_dir()) if corpus else []
    return (*written, *(ValidRun(folder.name, files_of(folder)) for folder in given))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below the folder by its key."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write_plain(run: RunLocation) -> None:
    """One worker; every type that is stored, scalars, texts, a name that is no ASCII."""
    store = LocalStore(run.tensors)
    for step in range(4):
        _save(store, _tensors(step, 0), step=step, mode="TRAIN", mode_step=step, worker="worker_0")
    _write_collections(store, ("worker_0",))
    store.put(END_MARKER_KEY, b"")


def _write_workers(run: RunLocation) -> None:
    """Three workers and four modes; reductions, shapes beside values and by themselves; steps over a thousand."""
    store = LocalStore(run.tensors)
    workers = ("worker_0", "worker_1", "worker_2")
    steps = ((0, "TRAIN", 0), (1, "EVAL", 0), (1000, "TRAIN", 1), (1001, "PREDICT", 0), (2000, "GLOBAL", 2000))
    for (step, mode, mode_step), (rank, worker) in itertools.product(steps, enumerate(workers)):
        if step == 1000 and rank == 2:
            _save_shapes_only(store, step=step, mode=mode, mode_step=mode_step, worker=worker)
        else:
            reduced: Tensors = [
                (f"smdebug/reductions/{word}/Net_relu_output_0", np.array(step + rank, "f4"))
                for word in ("mean", "abs_mean", "l2", "max")
            ]
            tensors = [*_tensors(step, rank)[:4], *reduced]
            _save_with_shapes(store, tensors, step=step, mode=mode, mode_step=mode_step, worker=worker)
    _write_collections(store, workers)
    store.put(CLAIM_KEY, b"")
    store.put("tensorboard/TRAIN/events.out.tfevents.1.host", _tensorboard_like())
    store.put(END_MARKER_KEY, b"")


def _write_judged(run: RunLocation) -> None:
    """A run with what lies beside its tensors: the rule request, verdicts, the evaluator's progress."""
    store = LocalStore(run.tensors)
    for step in range(3):
        tensors = [*_tensors(step, 0)[:3], ("Net_fc2.weight", np.array([1.0, np.nan], "f4"))]
        _save(store, tensors, step=step, mode="TRAIN", mode_step=step, worker="worker_0")
    _write_collections(store, ("worker_0",))
    store.put(END_MARKER_KEY, b"")
    request = default_request()
    LocalStore(run.uri).put(RULE_REQUEST_KEY, request.to_json().encode())
    evaluate(
        run,
        request,
        [JsonLinesSink(LocalStore(run.rule_output))],
        poll_seconds=1.0,
        clock=lambda: WALL_TIME,
        sleep=lambda _: None,
        should_stop=lambda: True,
    )


def _write_long(run: RunLocation) -> None:
    """Many small steps of one loss, more than a reader fetches at once; still running."""
    store = LocalStore(run.tensors)
    for step in range(0, 140, 2):
        loss = ("CrossEntropyLoss_output_0", np.array(1 / (step + 1), "f4"))
        _save(store, [loss], step=step, mode="TRAIN", mode_step=step, worker="worker_0")
    _write_collections(store, ("worker_0",))


def _write_captured(run: RunLocation) -> None:
    """As our own hook writes it: with a packed index, always-on statistics of every step, and watermarks."""
    request = CaptureRequest(tuple(CollectionRequest(name) for name in ("losses", "weights", "gradients")))
    for rank in range(2):
        worker = f"worker_{rank}"
        files = RunFiles(
            lambda: LocalStore(run.tensors),
            request=request,
            worker=worker,
            num_workers=2,
            ends_run=rank == 1,
            clock=lambda: WALL_TIME,
        )
        log = StatisticsLog(LocalStore(run.statistics), worker=worker, started_ms=1_700_000_000_000)
        for step in range(12):
            tensors = _tensors(step, rank)[:4]
            numbers = {(name, "mean"): float(np.mean(value.astype("f8"))) for name, value in tensors}
            log.record(numbers, step=step, mode="TRAIN", mode_step=step, wall_time=WALL_TIME + step)
            if step % 3 == 0:
                files.save(StepTensors(step, "TRAIN", step, WALL_TIME + step, tuple(tensors)))
                log.flush()
        log.close()
        mark = Watermark(worker, 2, 1_700_000_000_000, 9, through=11, mode_steps={"TRAIN": 11}, is_final=True)
        LocalStore(run.watermarks).put(
            watermark_key(worker), encode_watermark(replace(mark, segments=tuple(log.newest_segments)))
        )
        files.finish()
    states = [TrainingState(run_number, 10 * run_number, 9, {"TRAIN": 10 * run_number}) for run_number in (1, 2)]
    LocalStore(f"{run.uri}/{CHECKPOINTS}").put(STATES_KEY, encode_states(states))


def _tensors(step: int, rank: int) -> Tensors:
    random = np.random.default_rng([step, rank])
    return [
        ("CrossEntropyLoss_output_0", np.array(random.normal(), "f4")),
        ("Net_fc1.weight", random.normal(size=(4, 3)).astype("f4")),
        ("gradient/Net_fc1.weight", random.normal(size=(4, 3)).astype("f2")),
        ("Net_fc1.bias", random.normal(size=3)),
        ("names äöü/文 [0]:1", random.integers(-5, 5, size=(2, 1, 2))),
        ("steps", np.array([step], "i4")),
        ("mask", random.integers(0, 2, size=5).astype("?")),
        ("pixels", random.integers(0, 256, size=(2, 2)).astype("u1")),
        ("spectrum", random.normal(size=2) + 1j),
        ("exact", np.array([1e-300, np.inf, -np.inf, np.nan])),
        ("labels", np.array(["cat", "größe"])),
    ]


def _save(store: LocalStore, tensors: Tensors, *, step: int, mode: str, mode_step: int, worker: str) -> None:
    files = encode_step(tensors, step=step, mode=mode, mode_step=mode_step, worker=worker, wall_time=WALL_TIME + step)
    write_step(store, files)


def _save_with_shapes(
    store: LocalStore, tensors: Tensors, *, step: int, mode: str, mode_step: int, worker: str
) -> None:
    """As the original's hook does with `save_shape`."""
    key = event_key(step, worker)
    at = {"step": step, "mode_step": mode_step}
    records = [
        (name, encode_tensor(name, value, mode=mode, wall_time=WALL_TIME + step, **at)) for name, value in tensors
    ]
    index = Index(
        mode=mode,
        mode_step=mode_step,
        event_key=key,
        entries=tuple(_entries(records)),
        shapes=tuple(ShapeEntry(name, f"original/{name}", value.shape) for name, value in tensors[:2]),
    )
    store.put(key, b"".join(record for _, record in records))
    store.put(index_key(step, worker), encode_index(index))


def _save_shapes_only(store: LocalStore, *, step: int, mode: str, mode_step: int, worker: str) -> None:
    shapes = (ShapeEntry("Net_fc1.weight", "Net_fc1.weight", (4, 3)),)
    store.put(index_key(step, worker), encode_index(Index(mode, mode_step, None, shapes=shapes)))


def _tensorboard_like() -> bytes:
    return encode_tensor("x", np.ones(1), step=0, mode="TRAIN", mode_step=0, wall_time=WALL_TIME)


def _entries(records: list[tuple[str, bytes]]) -> Iterator[IndexEntry]:
    start = 0
    for name, record in records:
        yield IndexEntry(name, start, len(record))
        start += len(record)


def _write_collections(store: LocalStore, workers: tuple[str, ...]) -> None:
    records = [CollectionRecord(name, include_regex=regexes) for name, regexes in DEFAULT_REGEXES.items()]
    records.append(
        CollectionRecord(
            "relu",
            include_regex=("relu",),
            tensor_names=("Net_relu_output_0",),
            schedules=dict.fromkeys(MODE_NUMBERS, Schedule(10, start_step=5, end_step=50, save_steps=(7,))),
            reduction=ReductionRecord(save_raw_tensor=True, reductions=("min", "abs_l2_norm"), save_shape=True),
        )
    )
    content = encode_collections(records, num_workers=len(workers))
    for worker in workers:
        store.put(collections_key(worker), content)
