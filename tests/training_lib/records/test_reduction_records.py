"""Records that are made once and filled in are the very bytes that encoding each of them gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.records.index_file import ShapeEntry, decode_index, encode_index
from trackside.records.reduction_records import ReductionRecords, before_others
from trackside.records.step_file import encode_step
from trackside.records.tfevents import encode_tensor, read_records

NAMES = ("smdebug/reductions/mean/Net_fc.weight", "smdebug/reductions/abs_max/Net_fc.weight", "é/%d")
MOMENT = st.tuples(
    st.integers(0, 2**63 - 1), st.sampled_from(["TRAIN", "EVAL"]), st.integers(0, 2**63 - 1), st.floats(0, 4e9)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(MOMENT, st.lists(st.floats(width=32), min_size=3, max_size=3)), min_size=1, max_size=6))
def test_filled_records_are_encoded_ones(steps: list[tuple[tuple[int, str, int, float], list[float]]]) -> None:
    records = ReductionRecords(NAMES)
    for (step, mode, mode_step, wall_time), numbers in steps:
        values = np.array(numbers, np.float32)
        expected = [
            encode_tensor(name, np.asarray(value), step=step, mode=mode, mode_step=mode_step, wall_time=wall_time)
            for name, value in zip(NAMES, values, strict=True)
        ]
        data, _ = records.encode(values, step=step, mode=mode, mode_step=mode_step, wall_time=wall_time)
        assert data == b"".join(expected)


@pytest.mark.parametrize(
    "kind",
    [pytest.param("<f4", id="single"), pytest.param("<f8", id="double"), pytest.param("<f2", id="half"),
     pytest.param("<i8", id="whole numbers"), pytest.param(">f8", id="of another order")],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_values_of_any_type_and_shape(kind: str, shape: tuple[int, ...]) -> None:
    records, at = ReductionRecords(NAMES), {"mode": "TRAIN", "wall_time": 7.0}
    for step in (3, 4, 500):
        values = np.arange(step, step + 3 * math.prod(shape)).reshape(3, *shape).astype(kind)
        expected = [
            encode_tensor(name, np.asarray(value), step=step, mode_step=step, **at)  # type: ignore[arg-type]  # a dict
            for name, value in zip(NAMES, values, strict=True)
        ]
        data, _ = records.encode(values, step=step, mode_step=step, **at)  # type: ignore[arg-type]  # a dict
        assert data == b"".join(expected)


@pytest.mark.parametrize("behind", [None, ("events/000000000003/000000000003_worker_0.tfevents", 500)])
@pytest.mark.parametrize("others", [(), (("loss", np.ones(1, np.float32)), ("w", np.ones((2, 3))))])
@pytest.mark.parametrize("shapes", [(), (ShapeEntry("b", "b", (7,)),)])
def test_a_step_has_them_before_all_else(
    behind: tuple[str, int] | None, others: tuple[tuple[str, np.ndarray], ...], shapes: tuple[ShapeEntry, ...]
) -> None:
    values = np.array([1.0, 0.0, -3.5], np.float32)
    data, frame = ReductionRecords(NAMES).encode(values, step=9, mode="TRAIN", mode_step=8, wall_time=7.0)
    files = encode_step(
        others, step=9, mode="TRAIN", mode_step=8, worker="worker_0", wall_time=7.0, shapes=shapes, behind=behind
    )
    whole = before_others(data, frame, files)
    index = decode_index(whole.index_bytes, key=whole.index_key)
    assert (index, encode_index(index)) == (whole.index, whole.index_bytes)
    assert index.event_key == whole.event_key == files.event_key
    assert index.shapes == shapes
    start = behind[1] if behind else 0
    for entry, record in zip(index.entries, read_records(whole.event_bytes, key="", offset=start), strict=True):
        part = whole.event_bytes[entry.start - start :][: entry.length]
        (found,) = read_records(part, key="")
        assert found.name == record.name == entry.name
        assert (found.step, found.mode_step, found.wall_time) == (9, 8, 7.0)
    assert [entry.name for entry in index.entries] == [*NAMES, *(name for name, _ in others)]
