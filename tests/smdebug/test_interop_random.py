"""Runs at random, three ways: written by us and by the real smdebug they are the same bytes, and each reads the other.

Many runs go to the peer at once: to start it costs a second.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from trackside.contracts.run_layout import END_MARKER_KEY, collections_key
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.trial.trial import Trial, open_trial

MODES = ("TRAIN", "EVAL", "PREDICT", "GLOBAL")
REGEXES = ("a", "^(?!gradient).*weight", "[0-9]")


@dataclass(frozen=True)
class Step:
    """One step of one worker."""

    step: int
    worker: str
    mode: str
    mode_step: int
    wall_time: float
    tensors: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Run:
    """Every worker saves every step: smdebug would wait for one that does not."""

    workers: tuple[str, ...]
    steps: tuple[Step, ...]
    named: tuple[str, ...]


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(
    ("Net_fc1.weight", "gradient/Net_fc1.weight", "loss:0", "a\0b", "x" * 300, "-", "../../x", "\n")
)
kept = st.sampled_from(("f2", "f4", "f8", "i4", "i8", "u1", "?", "c16"))
numbers = npst.arrays(kept, npst.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=3))
no_nul = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
texts = st.lists(no_nul, min_size=1, max_size=4).map(np.array)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    workers = tuple(f"worker_{rank}" for rank in range(draw(st.integers(1, 3))))
    far = st.integers(0, 2**40)  # beyond 12 digits
    numbers_of_steps = sorted(draw(st.sets(st.integers(0, 3000) | far, min_size=1, max_size=4)))
    counts = dict.fromkeys(MODES, draw(st.integers(0, 5)))
    steps = []
    for number in numbers_of_steps:
        mode = draw(st.sampled_from(MODES))
        counts[mode] += draw(st.integers(1, 2000))
        mode_step = number if mode == "GLOBAL" else counts[mode]
        for worker in workers:
            values = draw(st.dictionaries(names, numbers | texts, min_size=1, max_size=4))
            wall_time = draw(st.floats(1, 2e9))
            steps.append(Step(number, worker, mode, mode_step, wall_time, tuple(values.items())))
    return Run(workers, tuple(steps), tuple(draw(st.lists(names, max_size=2, unique=True))))


def packed(value: Any) -> dict[str, Any]:
    if value.dtype.kind == "U":
        return {"dtype": "str", "shape": list(value.shape), "texts": value.reshape(-1).tolist()}
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": base64.b64encode(value.tobytes()).decode()}


def order(run: Run, folder: Path) -> dict[str, Any]:
    steps = [
        {
            "step": step.step,
            "worker": step.worker,
            "mode": step.mode,
            "mode_step": step.mode_step,
            "wall_time": step.wall_time,
            "tensors": [[name, packed(value)] for name, value in step.tensors],
        }
        for step in run.steps
    ]
    collections = [("all", REGEXES, run.named, None)]
    return {
        "folder": str(folder),
        "workers": run.workers,
        "collections": collections,
        "steps": steps,
        "has_ended": True,
    }


def write(run: Run, store: Store) -> None:
    for step in run.steps:
        at = {"step": step.step, "mode": step.mode, "mode_step": step.mode_step}
        write_step(store, encode_step(step.tensors, worker=step.worker, wall_time=step.wall_time, **at))  # type: ignore[arg-type]  # a dict of keywords
    record = CollectionRecord("all", include_regex=REGEXES, tensor_names=run.named)
    for worker in run.workers:
        store.put(collections_key(worker), encode_collections([record], num_workers=len(run.workers)))
    store.put(END_MARKER_KEY, b"")


def expected(run: Run) -> list[Any]:
    found = [
        [name, step.step, step.worker, step.mode, step.mode_step, packed(value)]
        for step in run.steps
        for name, value in step.tensors
    ]
    return sorted(found, key=repr)


def as_read(trial: Trial) -> list[Any]:
    found = [
        [
            name,
            saved.step,
            saved.worker,
            saved.mode,
            saved.mode_step,
            packed(trial.value(name, step=saved.step, worker=saved.worker)),
        ]
        for name in trial.names
        for saved in trial.parts.saved.saved(name)
    ]
    return sorted(found, key=repr)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(runs(), min_size=8, max_size=8))
def test_the_same_bytes_and_each_reads_the_other(
    tmp_path_factory: pytest.TempPathFactory, peer: Any, several: list[Run]
) -> None:
    ours, theirs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("theirs")
    for place, run in enumerate(several):
        write(run, LocalStore(ours / str(place)))
    peer("write_all", {"runs": [order(run, theirs / str(place)) for place, run in enumerate(several)]})
    assert files_of(ours) == files_of(theirs)
    answer = peer("read_all", {"runs": [{"folder": str(ours / str(place))} for place in range(len(several))]})
    for place, (run, found) in enumerate(zip(several, answer["runs"], strict=True)):
        as_theirs = [[*head, {**value, "dtype": _spelled(value["dtype"])}] for *head, value in found["tensors"]]
        assert sorted(as_theirs, key=repr) == expected(run)
        assert found["workers"] == sorted(run.workers)
        trial = open_trial(str(theirs / str(place)))
        assert as_read(trial) == expected(run)
        assert trial.damaged == ()
        assert list(trial.workers) == sorted(run.workers)
        assert list(trial.steps()) == found["steps"] == sorted({step.step for step in run.steps})
        assert list(trial.tensor_names(collection="all")) == sorted(found["collections"]["all"]["tensors"])


@settings(max_examples=100, deadline=None)
@given(runs())
def test_comes_back_through_a_trial(run: Run) -> None:
    store = MemoryStore()
    write(run, store)
    trial = open_trial(store)
    assert as_read(trial) == expected(run)
    assert trial.damaged == ()
    for mode in MODES:
        assert list(trial.steps(mode)) == sorted({step.step for step in run.steps if step.mode == mode})


def _spelled(dtype: str) -> str:
    return dtype if dtype == "str" else np.dtype(dtype).str
