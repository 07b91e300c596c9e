"""Shape and type from the first bytes of a record, whatever the tensor and however damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.records.tfevents import decode_record, encode_tensor
from trackside.trial.tensors.tensor_head import HEAD_BYTES, TensorHead, read_head


def record(value: Any, name: str = "a") -> bytes:
    return encode_tensor(name, np.asarray(value), step=3, mode="TRAIN", mode_step=3, wall_time=1.5)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u1", "?", "c16"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 0), (1, 2, 3, 4)])
def test_it_says_what_decoding_says(dtype: str, shape: tuple[int, ...]) -> None:
    data = record(np.zeros(shape, dtype))
    whole = decode_record(data, key="k", offset=0).value
    assert read_head(data, name="a", key="k", offset=0) == TensorHead(whole.shape, str(whole.dtype))


def test_texts() -> None:
    assert read_head(record(["x", "yy"]), name="a", key="k", offset=0) == TensorHead((2,), "str")


def test_a_large_tensor_needs_its_first_bytes_only() -> None:
    data = record(np.zeros((1000, 1000), np.float32))
    assert read_head(data[:HEAD_BYTES], name="a", key="k", offset=0) == TensorHead((1000, 1000), "float32")


def test_another_tensor_than_the_index_says_is_an_error() -> None:
    with pytest.raises(RecordError, match=r"k, byte 7: holds 'a' where the index says 'b'"):
        read_head(record(1.0), name="b", key="k", offset=7)


@given(st.integers(0, 80))
def test_a_cut_head_is_unknown_or_right(length: int) -> None:
    found = read_head(record(np.zeros((3, 4), "f4"))[:length], name="a", key="k", offset=0)
    assert found in {None, TensorHead((3, 4), "float32")}


@given(st.binary(max_size=200), st.integers(0, 100))
def test_any_bytes_end_in_a_head_or_an_error(noise: bytes, place: int) -> None:
    data = record(np.zeros((3, 4), "f4"))
    for bytes_ in (noise, data[:place] + noise, data[:place] + noise + data[place + len(noise) :]):
        try:
            found = read_head(bytes_, name="a", key="k", offset=0)
        except RecordError:
            continue
        assert found is None or isinstance(found, TensorHead)
