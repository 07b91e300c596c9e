"""Watermarks: a round trip, and objects that are none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import SegmentName
from trackside.records.modes import MODE_NUMBERS
from trackside.records.watermark import (
    MOST_BYTES,
    MOST_SEGMENTS,
    MOST_WORKERS,
    NOTHING_YET,
    Watermark,
    decode_watermark,
    encode_watermark,
)

GOLDEN = Path(__file__).parent / "golden" / "watermark.json"
PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "watermark.md").read_text(encoding="utf-8")
STARTED_MS = 1_763_805_000_000
MARK = Watermark(
    "worker_1",
    workers=2,
    started_ms=STARTED_MS,
    sequence=17,
    through=1839,
    mode_steps={"TRAIN": 1800, "EVAL": 38},
    stored_at=1763806000.25,
    saved_steps=5,
    collections=1,
    model_facts=2,
    segments=(
        SegmentName("worker_1", STARTED_MS, 0, 63),
        SegmentName("worker_1", STARTED_MS, 64, 64),
        SegmentName("worker_1", STARTED_MS, 65, None),
    ),
)

counts = st.integers(0, 2**63 - 1)
names = st.text(st.characters(codec="ascii", exclude_characters="/"), min_size=1, max_size=10).filter(str.isalnum)
segments = st.builds(
    lambda worker, started, first, more: SegmentName(worker, started, first, None if more is None else first + more),
    names,
    st.integers(0, 10**15),
    st.integers(0, 10**9),
    st.none() | st.integers(0, 10**6),
)
marks = st.builds(
    Watermark,
    worker=names,
    workers=st.integers(1, MOST_WORKERS),
    started_ms=counts,
    sequence=counts,
    through=st.integers(NOTHING_YET, 2**63 - 1),
    mode_steps=st.dictionaries(st.sampled_from([*MODE_NUMBERS]), counts),
    stored_at=st.floats(0, 1e12),
    is_final=st.booleans(),
    saved_steps=counts,
    collections=counts,
    model_facts=counts,
    segments=st.lists(segments, max_size=MOST_SEGMENTS).map(tuple),
)


def read(data: bytes, worker: str = "worker_1") -> Watermark:
    return decode_watermark(data, key="k", worker=worker)


def test_version_1_never_changes() -> None:
    assert read(GOLDEN.read_bytes()) == MARK
    assert encode_watermark(MARK) == GOLDEN.read_bytes()


@given(marks)
def test_a_watermark_survives(mark: Watermark) -> None:
    data = encode_watermark(mark)
    assert read(data, mark.worker) == mark
    assert len(data) < MOST_BYTES


def test_it_is_small() -> None:
    """It is stored every second."""
    assert len(GOLDEN.read_bytes()) < 600


def test_the_page_shows_one_and_names_its_fields() -> None:
    (example,) = re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)
    shown = read(example.encode())
    assert replace(shown, segments=MARK.segments) == MARK
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [*json.loads(GOLDEN.read_bytes())]


def test_fields_that_are_not_known_are_passed_over() -> None:
    assert read(GOLDEN.read_bytes().replace(b"{", b'{"later": [{}], ', 1)) == MARK


def test_only_the_newest_segments_are_named() -> None:
    many = tuple(SegmentName("worker_1", STARTED_MS, number, number) for number in range(20))
    mark = Watermark("worker_1", segments=many)
    assert read(encode_watermark(mark)).segments == many[-MOST_SEGMENTS:]


def test_an_unknown_mode_is_not_written() -> None:
    with pytest.raises(ValueError, match="LUNCH"):
        encode_watermark(Watermark("worker_1", mode_steps={"LUNCH": 1}))


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(GOLDEN.read_bytes()), **fields}).encode()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b"[]", "not an object", id="a list"),
        pytest.param(GOLDEN.read_bytes()[:-1], "not whole JSON", id="cut"),
        pytest.param(b"\xff" + GOLDEN.read_bytes(), "UTF-8", id="no text"),
        pytest.param(GOLDEN.read_bytes() + b" " * MOST_BYTES, "64 KiB", id="too large"),
        pytest.param(changed(version=2), "version 2", id="a later version"),
        pytest.param(changed(version=None), "version", id="no version"),
        pytest.param(changed(workers=0), "workers = 0", id="no workers"),
        pytest.param(changed(workers=MOST_WORKERS + 1), "workers", id="too many workers"),
        pytest.param(changed(through=-2), "through", id="before the beginning"),
        pytest.param(changed(through=-1.5), "through", id="half a step"),
        pytest.param(changed(through=2**63), "through", id="a step of 64 bits"),
        pytest.param(changed(through=True), "through", id="no number"),
        pytest.param(changed(through=float("nan")), "through", id="not a number"),
        pytest.param(changed(mode_steps={"LUNCH": 1}), "LUNCH", id="an unknown mode"),
        pytest.param(changed(mode_steps={"TRAIN": -1}), "TRAIN", id="a negative step of a mode"),
        pytest.param(changed(mode_steps=[]), "mode_steps", id="no modes"),
        pytest.param(changed(is_final="yes"), "is_final", id="no boolean"),
        pytest.param(changed(stored_at=float("inf")), "stored_at", id="an endless moment"),
        pytest.param(changed(segments=["../../etc/passwd"]), "no statistics segment", id="a path that leads out"),
        pytest.param(changed(segments=[7]), "segments", id="no name"),
        pytest.param(changed(started_ms=None), "started_ms", id="no start"),
    ],
)
def test_anything_else_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(RecordError, match=complaint) as caught:
        read(data)
    assert caught.value.key == "k"


@given(st.data())
def test_damage_is_refused_or_read_as_a_watermark(data: st.DataObject) -> None:
    damaged = bytearray(GOLDEN.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damage: Callable[[], bytes] = data.draw(
            st.sampled_from([lambda: b"", lambda: data.draw(st.binary(min_size=1, max_size=4))])
        )
        damaged[place : place + data.draw(st.integers(0, 5))] = damage()
    try:
        mark = read(bytes(damaged))
    except RecordError:
        return
    assert mark.worker == "worker_1"
    assert mark.through >= NOTHING_YET
    assert 0 < mark.workers <= MOST_WORKERS
    assert len(mark.segments) <= MOST_SEGMENTS


@given(st.binary(max_size=200))
def test_whatever_lies_there_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        read(data)
