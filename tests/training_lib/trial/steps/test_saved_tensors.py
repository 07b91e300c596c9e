"""Which steps hold which tensor is the same whether it is looked up or searched for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.steps.saved_tensors import REDUCTION_MARK, SavedTensors, base_name
from trackside.trial.steps.selection import Selection, StepRange
from trackside.trial.steps.step_index import StepIndex

NAMES = ("loss", "weight", f"{REDUCTION_MARK}mean/weight", f"{REDUCTION_MARK}abs_max/bias")
WORKERS = ("worker_0", "worker_1")
SAVED = st.tuples(
    st.sampled_from(WORKERS), st.sets(st.sampled_from(NAMES), min_size=1), st.sampled_from(["TRAIN", "EVAL"])
)
SELECTION = st.builds(
    Selection,
    steps=st.sampled_from([StepRange(), StepRange(3, 9), StepRange(1, None, 4), StepRange(100)]),
    mode=st.sampled_from([None, "TRAIN", "EVAL"]),
    worker=st.sampled_from([None, *WORKERS]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SAVED, max_size=16), st.integers(0, 16), st.booleans(), st.lists(SELECTION, min_size=1, max_size=3))
def test_looking_up_is_searching(
    saved: list[tuple[str, set[str], str]], first: int, ends: bool, selections: list[Selection]
) -> None:
    store = MemoryStore()
    write_collections(store, workers=WORKERS)
    index = StepIndex(store, report=lambda error: None)
    index.expect_workers(2)
    tensors = SavedTensors(index)
    for part in (range(first), range(first, len(saved))):
        for place in part:
            if place < len(saved):
                worker, names, mode = saved[place]
                write_tensors(store, place // 2 * 2, dict.fromkeys(sorted(names), 1.0), mode=mode, worker=worker)
        if ends and part.stop == len(saved):
            end_run(store)
        index.refresh()
        last = -1 if index.last_complete is None else index.last_complete
        for selection in selections:
            covered = [s for s in index.arrivals if s.step <= last and selection.covers(s)]
            everything = {base_name(name) for s in covered for name in s.layout.records}
            assert tensors.names(selection) == everything
            for tensor in ("loss", "weight", "bias", "nothing"):
                found = [s for s in covered if tensor in {base_name(name) for name in s.layout.records}]
                assert tensors.saved(tensor, selection) == tuple(found)
                assert tensors.workers(tensor, selection) == tuple(sorted({s.worker for s in found}))
                whole = [s.step for s in covered if tensor in s.layout.records]
                newest = tensors.newest(tensor, selection)
                assert (newest.step if newest else None) == max(whole, default=None)
