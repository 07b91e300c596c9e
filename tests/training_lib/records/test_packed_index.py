"""Files of the packed index: what is written is read back, and nothing that is damaged is believed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import event_key, packed_index_key
from trackside.records.block_file import encode_block, read_blocks
from trackside.records.index_file import IndexEntry, ShapeEntry
from trackside.records.modes import MODE_NAMES, MODE_NUMBERS
from trackside.records.packed_index import (
    FORMAT,
    LAYOUT_KIND,
    MOST_FILE_BYTES,
    MOST_RECORD_BYTES,
    MOST_ROWS,
    NOTHING_BEFORE,
    ROW,
    ROWS_KIND,
    PackedFile,
    PackedIndex,
    PackedLayout,
    decode_packed_index,
)

WORKER = "worker_0"
KEY = packed_index_key(WORKER, started_ms=1_700_000_000_000, first_step=0)
GOLDEN = Path(__file__).parent / "golden" / "packed-index.tpi"

# (step, mode, mode step, which layout), as they are added
Row = tuple[int, str, int, int]

LAYOUTS = (
    PackedLayout((IndexEntry("loss", 0, 70), IndexEntry("größe/w", 70, 123456))),
    PackedLayout((IndexEntry("loss", 0, 71),), (ShapeEntry("fc/w", "fc.weight", (3, 0, 2)),)),
    PackedLayout((), (ShapeEntry("fc/w", "fc/w", ()),), event_key=""),
    PackedLayout((IndexEntry("x", 5, 6),), event_key="events/000000000007/000000000007_worker_3.tfevents"),
)
ROWS: tuple[Row, ...] = (
    (0, "TRAIN", 0, 0),
    (1, "EVAL", 0, 1),
    (5, "TRAIN", 4, 0),
    (6, "PREDICT", 0, 2),
    (9, "GLOBAL", 9, 3),
)


def written(
    layouts: Sequence[PackedLayout], rows: Sequence[Row], *, store_every: int = 2, follows: str | None = NOTHING_BEFORE
) -> bytes:
    """A file, as a writer makes it that stores it again after every few rows."""
    file = PackedFile(WORKER, follows=follows)
    for place, (step, mode, mode_step, layout) in enumerate(rows):
        file.add(step, mode=mode, mode_step=mode_step, layout=layouts[layout])
        if place % store_every == 0:
            file.encode()
    return file.encode()


def rows_of(index: PackedIndex) -> list[tuple[Any, ...]]:
    """Step, mode, mode step, entries, shapes and event key of each row."""
    found = []
    for row in index.rows:
        layout = index.layouts[int(row["layout"])]
        mode = MODE_NAMES[int(row["mode"])]
        found.append((int(row["step"]), mode, int(row["mode_step"]), *content_of(layout)))
    return found


def content_of(layout: PackedLayout) -> tuple[Any, ...]:
    return layout.entries, layout.shapes, layout.event_key


def expected(layouts: Sequence[PackedLayout], rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return [(step, mode, mode_step, *content_of(layouts[number])) for step, mode, mode_step, number in rows]


def decoded_or_error(data: bytes, known: PackedIndex | None = None) -> PackedIndex | RecordError:
    try:
        return decode_packed_index(data, key=KEY, known=known)
    except RecordError as error:
        return error


def blocks(*payloads: tuple[int, bytes]) -> bytes:
    return b"".join(encode_block(kind, payload, number=number) for number, (kind, payload) in enumerate(payloads))


def header(**changes: Any) -> tuple[int, bytes]:
    document = {"format": FORMAT, "version": 1, "worker": WORKER, "follows": "", **changes}
    return 0, json.dumps(document).encode()


def layout(**changes: Any) -> tuple[int, bytes]:
    document = {"id": 0, "tensors": [["a", 0, 10]], "shapes": [["b", "c", [1]]], "event_key": None, **changes}
    return LAYOUT_KIND, json.dumps(document).encode()


def row(step: int = 0, mode_step: int = 0, layout: int = 0, mode: int = 1) -> tuple[int, bytes]:
    return ROWS_KIND, np.array([(step, mode_step, layout, mode, (0, 0, 0))], ROW).tobytes()


def test_reads_back_what_was_written() -> None:
    index = decode_packed_index(written(LAYOUTS, ROWS), key=KEY)
    assert (index.worker, index.started_ms, index.first_step, index.follows) == (WORKER, 1_700_000_000_000, 0, "")
    assert rows_of(index) == expected(LAYOUTS, ROWS)


def test_writes_and_reads_the_golden_file() -> None:
    assert written(LAYOUTS, ROWS) == GOLDEN.read_bytes()
    assert rows_of(decode_packed_index(GOLDEN.read_bytes(), key=KEY)) == expected(LAYOUTS, ROWS)


@pytest.mark.parametrize(
    "follows",
    [
        pytest.param(NOTHING_BEFORE, id="nothing"),
        pytest.param(None, id="unknown"),
        pytest.param(packed_index_key(WORKER, started_ms=1, first_step=2), id="another-file"),
    ],
)
def test_says_what_it_follows(follows: str | None) -> None:
    assert decode_packed_index(written(LAYOUTS, ROWS, follows=follows), key=KEY).follows == follows


def test_kinds_and_fields_that_came_later_are_passed_over() -> None:
    data = blocks(header(author="x"), (77, b"new"), layout(hue=3), row(step=4))
    assert [int(step) for step in decode_packed_index(data, key=KEY).rows["step"]] == [4]


names = st.text(st.characters(codec="utf-8"), max_size=8)
counts = st.integers(0, 2**63 - 1)
entries = st.builds(IndexEntry, names, counts, st.integers(1, MOST_RECORD_BYTES))
shape_entries = st.builds(ShapeEntry, names, names, st.lists(counts, max_size=3).map(tuple))
event_keys = st.one_of(
    st.none(),
    st.builds(lambda s, w: f"events/{s:012d}/{s:012d}_{w}.tfevents", st.integers(0, 10**12), st.just("worker_1")),
)
with_tensors = st.builds(
    PackedLayout,
    st.lists(entries, min_size=1, max_size=3).map(tuple),
    st.lists(shape_entries, max_size=2).map(tuple),
    event_keys,
)
shapes_only = st.builds(PackedLayout, st.just(()), st.lists(shape_entries, min_size=1).map(tuple), st.just(""))


@st.composite
def packed_runs(draw: st.DrawFn) -> tuple[list[PackedLayout], list[Row]]:
    layouts = draw(st.lists(st.one_of(with_tensors, shapes_only), min_size=1, max_size=4))
    rows = draw(
        st.lists(st.tuples(counts, st.sampled_from(sorted(MODE_NUMBERS)), counts, st.integers(0, len(layouts) - 1)))
    )
    return layouts, rows


@settings(max_examples=60)
@given(packed_runs(), st.integers(1, 5))
def test_any_rows_of_any_layouts_come_back(run: tuple[list[PackedLayout], list[Row]], store_every: int) -> None:
    layouts, rows = run
    index = decode_packed_index(written(layouts, rows, store_every=store_every), key=KEY)
    assert rows_of(index) == expected(layouts, rows)


def first_part(whole: bytes, data: st.DataObject) -> bytes:
    """A file as it was at the end of one of its blocks."""
    starts = [block.offset for block in read_blocks(whole, key=KEY).blocks[1:]]
    return whole[: data.draw(st.sampled_from([*starts, len(whole)]), label="end before")]


@settings(max_examples=100)
@given(packed_runs(), st.integers(1, 5), st.data())
def test_a_file_that_grew_reads_as_one_that_is_read_first(
    run: tuple[list[PackedLayout], list[Row]], store_every: int, data: st.DataObject
) -> None:
    whole = written(*run, store_every=store_every)
    known = decode_packed_index(first_part(whole, data), key=KEY)
    index = decode_packed_index(whole, key=KEY, known=known)
    assert rows_of(index) == expected(*run)
    assert index.layouts[: len(known.layouts)] == known.layouts
    assert decode_packed_index(whole, key=KEY, known=index) is index


@settings(max_examples=200)
@given(st.data())
def test_what_was_known_hides_no_damage(data: st.DataObject) -> None:
    whole = written(LAYOUTS, ROWS, store_every=1)
    known = decode_packed_index(first_part(whole, data), key=KEY)
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)), label="kept")])
    for _ in range(data.draw(st.integers(0, 2), label="flips") if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1), label="at")] ^= 1 << data.draw(st.integers(0, 7))
    anew, again = decoded_or_error(bytes(damaged)), decoded_or_error(bytes(damaged), known=known)
    if isinstance(anew, RecordError) or isinstance(again, RecordError):
        assert str(again) == str(anew)
    else:
        assert rows_of(again) == rows_of(anew)


@settings(max_examples=300)
@given(st.data())
def test_damaged_bytes_are_an_error_or_say_less_never_something_else(data: st.DataObject) -> None:
    whole = written(LAYOUTS, ROWS)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3), label="flips")):
        damaged[data.draw(st.integers(0, len(whole) - 1), label="at")] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    cut = bytes(damaged[: data.draw(st.integers(0, len(whole)), label="kept")])
    read = decoded_or_error(cut)
    if isinstance(read, RecordError):
        assert read.key == KEY
        assert 0 <= read.offset <= len(whole)
    else:
        assert rows_of(read) == expected(LAYOUTS, ROWS)[: len(read.rows)]


@settings(max_examples=150)
@given(
    st.one_of(st.binary(max_size=200), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
)
def test_any_payload_in_sound_blocks_is_rows_or_an_error(payload: bytes | str) -> None:
    content = payload.encode() if isinstance(payload, str) else payload
    for kind in (0, LAYOUT_KIND, ROWS_KIND):
        sound = [(kind, content)] if kind == 0 else [header(), layout(), (kind, content)]
        assert decoded_or_error(blocks(*sound)).key == KEY


ANOTHER = packed_index_key("worker_1", started_ms=1, first_step=2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "does not begin with a header", id="empty"),
        pytest.param(b"\0" * 40, "damaged from here on", id="zeros"),
        pytest.param(blocks(header())[:-1], "cut off", id="cut-off"),
        pytest.param(blocks(layout(), row()), "does not begin with a header", id="no-header"),
        pytest.param(blocks(header(format="trackside-statistics")), "not of the format", id="another-format"),
        pytest.param(blocks(header(version=2)), "version", id="a-later-version"),
        pytest.param(blocks(header(worker="worker_1")), "not of worker_0", id="another-worker"),
        pytest.param(blocks(header(follows="../secret")), "follows something", id="follows-anything"),
        pytest.param(blocks(header(follows=ANOTHER)), "follows something", id="follows-another-worker"),
        pytest.param(blocks(header(follows=3)), "follows something", id="follows-a-number"),
        pytest.param(blocks((0, b"[" * 100_000)), "not JSON", id="endless-nesting"),
        pytest.param(blocks((0, b"9" * 5_000)), "not JSON", id="endless-number"),
        pytest.param(blocks((0, b"[]")), "not a JSON object", id="no-object"),
        pytest.param(
            blocks(header()) + encode_block(ROWS_KIND, b"", number=2), "block 2 where block 1", id="a-block-is-missing"
        ),
        pytest.param(blocks(header(), layout(id=1)), "the id 0", id="wrong-id"),
        pytest.param(blocks(header(), layout(id=True)), "the id 0", id="id-is-true"),
        pytest.param(blocks(header(), layout(), layout()), "the id 1", id="the-same-id-again"),
        pytest.param(blocks(header(), layout(tensors=None)), "no list of tensors", id="no-tensors"),
        pytest.param(blocks(header(), layout(tensors=[["a", 0]])), "is not \\[name", id="half-a-tensor"),
        pytest.param(blocks(header(), layout(tensors=[["a", -1, 5]])), "is not \\[name", id="negative-start"),
        pytest.param(blocks(header(), layout(tensors=[["a", 0, 0]])), "is not \\[name", id="nothing-long"),
        pytest.param(blocks(header(), layout(tensors=[["a", 0, 2**40]])), "is not \\[name", id="huge-length"),
        pytest.param(blocks(header(), layout(tensors=[["a", 2**63, 5]])), "is not \\[name", id="huge-start"),
        pytest.param(blocks(header(), layout(tensors=[["a", 0.0, 5]])), "is not \\[name", id="fraction"),
        pytest.param(blocks(header(), layout(tensors=[["a", 0, True]])), "is not \\[name", id="length-is-true"),
        pytest.param(blocks(header(), layout(tensors=[[7, 0, 5]])), "is not \\[name", id="name-is-a-number"),
        pytest.param(blocks(header(), layout(shapes=[["a", "b", [-1]]])), "is not \\[name", id="negative-shape"),
        pytest.param(blocks(header(), layout(shapes=[["a", "b", 3]])), "is not \\[name", id="shape-is-a-number"),
        pytest.param(blocks(header(), layout(event_key="/etc/passwd")), "no event file", id="event-key-leads-out"),
        pytest.param(blocks(header(), layout(event_key=5)), "no event file", id="event-key-is-a-number"),
        pytest.param(blocks(header(), layout(event_key="")), "tensors but no event file", id="tensors-nowhere"),
        pytest.param(blocks(header(), layout(), (ROWS_KIND, b"\0" * 23)), "a row has 24", id="part-of-a-row"),
        pytest.param(blocks(header(), row()), "makes no sense", id="no-such-layout"),
        pytest.param(blocks(header(), layout(), row(layout=2**32 - 1)), "makes no sense", id="huge-layout"),
        pytest.param(blocks(header(), layout(), row(step=-1)), "makes no sense: step -1", id="negative-step"),
        pytest.param(blocks(header(), layout(), row(mode_step=-1)), "makes no sense", id="negative-mode-step"),
        pytest.param(blocks(header(), layout(), row(mode=0)), "makes no sense", id="mode-0"),
        pytest.param(blocks(header(), layout(), row(mode=5)), "makes no sense", id="mode-5"),
        pytest.param(
            blocks(header(), layout(), (ROWS_KIND, row()[1] * (MOST_ROWS + 1))), "more than", id="too-many-rows"
        ),
        pytest.param(bytes(MOST_FILE_BYTES + 1), "goes on after", id="too-large"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, says: str) -> None:
    with pytest.raises(RecordError, match=says) as caught:
        decode_packed_index(data, key=KEY)
    assert caught.value.key == KEY


def test_the_offset_is_that_of_the_block() -> None:
    sound = blocks(header(), layout(), row())
    data = sound + encode_block(*row(step=-1), number=3)
    with pytest.raises(RecordError) as caught:
        decode_packed_index(data, key=KEY)
    assert caught.value.offset == len(sound)


@pytest.mark.parametrize("key", ["packed-index/worker_0/x.tpi", "index/000000000/000000000000_worker_0.json", ""])
def test_only_keys_of_the_packed_index_are_read(key: str) -> None:
    with pytest.raises(RecordError, match="no key of a packed index"):
        decode_packed_index(written(LAYOUTS, ROWS), key=key)


@pytest.mark.parametrize(
    ("step", "mode", "mode_step"),
    [
        pytest.param(-1, "TRAIN", 0, id="negative-step"),
        pytest.param(2**63, "TRAIN", 0, id="step-of-64-bits"),
        pytest.param(0, "TRAIN", -1, id="negative-mode-step"),
        pytest.param(0, "train", 0, id="unknown-mode"),
    ],
)
def test_what_no_row_holds_is_refused_and_leaves_nothing(step: int, mode: str, mode_step: int) -> None:
    file = PackedFile(WORKER, follows=None)
    before = file.encode()
    with pytest.raises(ValueError, match=r"No row holds|is not a mode"):
        file.add(step, mode=mode, mode_step=mode_step, layout=LAYOUTS[0])
    assert (file.encode(), file.row_count) == (before, 0)


def test_a_layout_that_makes_the_file_too_large_is_refused() -> None:
    huge = PackedLayout((IndexEntry("n" * (MOST_FILE_BYTES // 2), 0, 1),))
    file = PackedFile(WORKER, follows=None)
    with pytest.raises(ValueError, match="at most"):
        file.add(0, mode="TRAIN", mode_step=0, layout=huge)
    assert len(decode_packed_index(file.encode(), key=KEY).layouts) == 0


def test_a_full_file_is_read_and_takes_no_more() -> None:
    file = PackedFile(WORKER, follows=None)
    for step in range(MOST_ROWS):
        file.add(step, mode="TRAIN", mode_step=step, layout=LAYOUTS[0])
    with pytest.raises(ValueError, match="at most"):
        file.add(MOST_ROWS, mode="TRAIN", mode_step=0, layout=LAYOUTS[0])
    assert len(decode_packed_index(file.encode(), key=KEY).rows) == MOST_ROWS


def test_the_reader_in_the_documentation_reads_the_golden_file() -> None:
    page = (Path(__file__).parents[3] / "docs" / "formats" / "packed-index.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    namespace: dict[str, Any] = {}
    exec(code, namespace)  # noqa: S102 - our own page
    found = list(namespace["packed_steps"](GOLDEN.read_bytes(), WORKER))
    assert found == [
        (
            step,
            MODE_NUMBERS[mode],
            mode_step,
            event_key(step, WORKER) if LAYOUTS[number].event_key is None else LAYOUTS[number].event_key,
            {entry.name: (entry.start, entry.length) for entry in LAYOUTS[number].entries},
        )
        for step, mode, mode_step, number in ROWS
    ]


@pytest.mark.parametrize("document", range(2))
def test_the_documents_in_the_documentation_are_read(document: int) -> None:
    page = (Path(__file__).parents[3] / "docs" / "formats" / "packed-index.md").read_text(encoding="utf-8")
    shown = [text.encode() for text in re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)]
    assert len(shown) == 2
    sound = [(0, shown[0]), (LAYOUT_KIND, shown[1] if document else layout()[1]), row()]
    assert len(decode_packed_index(blocks(*sound), key=KEY).rows) == 1
