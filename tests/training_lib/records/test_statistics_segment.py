"""Statistics segments: what is recorded comes back, measured or not, and a damaged file is told from a whole one."""

from __future__ import annotations

import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tests.training_lib.records.schema_blocks import read_schema
from trackside.contracts.errors import RecordError
from trackside.records.block_file import FOOTER_BYTES, HEAD_BYTES, Block, encode_block, read_blocks
from trackside.records.statistics_segment import (
    MOST_ROW_BYTES,
    MOST_SCHEMA_BYTES,
    ROWS_KIND,
    SCHEMA_KIND,
    TYPES,
    Schema,
    StatisticColumn,
    check_rows,
    column_of,
    encode_header,
    encode_rows,
    encode_schema,
    read_header,
    read_rows,
)

GOLDEN = Path(__file__).parent / "golden" / "statistics.tss"


def block(payload: bytes, kind: int = SCHEMA_KIND) -> Block:
    return Block(kind, 0, payload, 70)


def schema_of(*types: str) -> Schema:
    return Schema(tuple(StatisticColumn(f"t{place}", "l2", kind) for place, kind in enumerate(types)))


def written(schema: Schema, values: Any, measured: Any = None) -> bytes:
    array = np.asarray(values)
    count = len(array)
    return encode_rows(
        4,
        schema,
        steps=np.arange(count) + 10,
        mode_steps=np.arange(count),
        wall_times=np.full(count, 1.5),
        modes=np.full(count, 1),
        values=array,
        measured=None if measured is None else np.asarray(measured),
    )


def read(payload: bytes, schema: Schema) -> NDArray[np.void]:
    rows = read_rows(block(payload, ROWS_KIND), key="k")
    check_rows(rows, schema, key="k", offset=70)
    return np.frombuffer(rows.body, schema.dtype(has_holes=rows.has_holes))


def back(schema: Schema, values: Any, measured: Any = None) -> list[list[float | None]]:
    """What is read of each column; None where nothing was measured."""
    rows = read(written(schema, values, measured), schema)
    columns: list[list[float | None]] = []
    for place in range(len(schema.columns)):
        numbers, known = column_of(rows, schema, place)
        is_known = np.ones(len(rows), bool) if known is None else known
        columns.append([float(v) if k else None for v, k in zip(numbers, is_known, strict=True)])
    return columns


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, NDArray[np.float64], NDArray[np.bool_]]:
    schema = schema_of(*draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=20)))
    shape = (draw(st.integers(1, 6)), len(schema.columns))
    return schema, draw(hnp.arrays(np.float64, shape)), draw(hnp.arrays(np.bool_, shape))


def stored(value: float, kind: str) -> float | None:
    """An independent account of what a type makes of a number."""
    if kind in {"i4", "u1", "bit"}:
        low, high = {"i4": (-(2**31), 2**31 - 1), "u1": (0, 255), "bit": (0, 1)}[kind]
        if math.isnan(value):
            return None
        if kind == "bit":
            return float(value != 0)
        return float(round(min(max(value, low), high)))
    if kind == "f8" or not math.isfinite(value):
        return value
    largest = {"f4": 3.4028234663852886e38, "f2": 65504.0, "bf16": 3.3895313892515355e38}[kind]
    value = min(max(value, -largest), largest)
    if kind == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        upper, rest = bits >> 16, bits & 0xFFFF
        upper += rest > 0x8000 or (rest == 0x8000 and upper & 1)
        return float(struct.unpack("<f", struct.pack("<I", upper << 16))[0])
    layout = {"f4": "<f", "f2": "<e"}[kind]
    return float(struct.unpack(layout, struct.pack(layout, value))[0])


@given(tables())
def test_rows_come_back_as_their_types_hold_them(table: tuple[Schema, Any, Any]) -> None:
    schema, values, measured = table
    for place, (found, column) in enumerate(zip(back(schema, values, measured), schema.columns, strict=True)):
        expected = [
            stored(value, column.type) if known else None
            for value, known in zip(values[:, place], measured[:, place], strict=True)
        ]
        np.testing.assert_equal(found, expected)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param("f4", math.nan, math.nan, id="a NaN that was measured is one"),
        pytest.param("f8", -math.inf, -math.inf, id="infinity"),
        pytest.param("f4", 1e300, 3.4028234663852886e38, id="beyond f4: not infinity"),
        pytest.param("f2", -1e6, -65504.0, id="beyond f2"),
        pytest.param("f2", math.inf, math.inf, id="infinity in f2"),
        pytest.param("bf16", 3.4e38, 3.3895313892515355e38, id="beyond bf16"),
        pytest.param("bf16", math.nan, math.nan, id="a NaN in bf16"),
        pytest.param("bf16", 1.00390625, 1.0, id="bf16, half way, to even"),
        pytest.param("i4", -2.6, -3.0, id="whole numbers are rounded"),
        pytest.param("i4", 1e12, 2.0**31 - 1, id="beyond i4"),
        pytest.param("u1", -1.0, 0.0, id="below u1"),
        pytest.param("u1", math.nan, None, id="no NaN among whole numbers"),
        pytest.param("bit", 0.0, 0.0, id="no"),
        pytest.param("bit", 0.3, 1.0, id="yes"),
        pytest.param("bit", math.nan, None, id="no NaN among bits"),
    ],
)
def test_what_a_type_makes_of_a_number(kind: str, value: float, expected: float | None) -> None:
    np.testing.assert_equal(back(schema_of(kind), [[value]]), [[expected]])


def test_a_nan_of_any_pattern_survives_single_precision() -> None:
    patterns = np.array([[0x7FC00000], [0xFFC0DEAD], [0x7F800001], [0x7FFFFFFF]], np.uint32).view(np.float32)
    assert np.isnan(np.array(back(schema_of("f4"), patterns), float)).all()
    assert np.isnan(np.array(back(schema_of("bf16"), patterns), float)).all()


@pytest.mark.parametrize(
    ("types", "row_bytes", "with_holes"),
    [
        pytest.param(["f4"], 25 + 4, 25 + 4 + 1, id="one"),
        pytest.param(["f8", "f4", "bf16", "f2", "i4", "u1"], 25 + 21, 25 + 21 + 1, id="one of each"),
        pytest.param(["bit"] * 8, 25 + 1, 25 + 2, id="eight bits"),
        pytest.param(["bit"] * 9, 25 + 2, 25 + 4, id="nine bits"),
        pytest.param(["f4", "bit", "f4", "bit"], 25 + 9, 25 + 10, id="mixed"),
    ],
)
def test_rows_have_no_padding(types: list[str], row_bytes: int, with_holes: int) -> None:
    schema = schema_of(*types)
    assert (schema.row_bytes(), schema.row_bytes(has_holes=True)) == (row_bytes, with_holes)
    assert len(written(schema, np.zeros((3, len(types))))) == 12 + 3 * row_bytes
    assert len(written(schema, np.zeros((3, len(types))), np.eye(3, len(types), dtype=bool))) == 12 + 3 * with_holes


def every_step(tensors: int, norm: str = "f4") -> Schema:
    """The every-step tier as docs/formats/statistics-segment.md recommends it."""
    names = [f"gradient/GPT_blocks.{n // 13}.attention.projection_{n % 13}.weight" for n in range(tensors)]
    return Schema(
        (
            StatisticColumn("CrossEntropyLoss_output_0", "mean", "f8"),
            StatisticColumn("learning_rate/0", "mean", "f8"),
            *(StatisticColumn(name, "l2", norm) for name in names),
            *(StatisticColumn(name, "has_nonfinite", "bit") for name in names),
            *(StatisticColumn(name, "is_present", "bit") for name in names),
        )
    )


def with_framing(schema: Schema, *, has_holes: bool = False) -> int:
    """Bytes a step where each step is a block of its own, as when a step takes a second."""
    return HEAD_BYTES + 12 + schema.row_bytes(has_holes=has_holes) + FOOTER_BYTES


def test_the_every_step_tier_of_156_tensors_takes_less_than_a_kilobyte() -> None:
    """The figures stand in docs/formats/statistics-segment.md."""
    schema = every_step(156)
    assert with_framing(schema) == 744
    assert with_framing(schema, has_holes=True) == 803
    small_object = HEAD_BYTES + FOOTER_BYTES + len(encode_schema(0, schema)) + len(encode_header("worker_0", number=0))
    assert small_object < 3000  # what an S3 object of its own adds, until it is merged


@pytest.mark.parametrize(
    ("most", "norm"),
    [pytest.param(221, "f4", id="f4"), pytest.param(419, "bf16", id="bf16")],
)
def test_how_many_tensors_fit_into_a_kilobyte(most: int, norm: str) -> None:
    """The figures stand in docs/formats/statistics-segment.md, with what larger models do."""
    assert with_framing(every_step(most, norm)) <= 1024 < with_framing(every_step(most + 1, norm))


def test_a_thousand_tensors_in_groups_fit_too() -> None:
    groups = {f"group/{n}": tuple(f"gradient/layer{n}.{k}" for k in range(8)) for n in range(125)}
    norms = [StatisticColumn(name, "l2") for name in groups]
    flags = [StatisticColumn(name, "has_nonfinite", "bit") for members in groups.values() for name in members]
    schema = Schema((*norms, *flags), groups)
    assert with_framing(schema) == 690
    assert read_schema(block(encode_schema(1, schema)), key="k")[1].groups == groups


@given(
    st.lists(st.tuples(st.text(), st.text()), min_size=1, unique=True),
    st.dictionaries(st.text(), st.lists(st.text()).map(tuple)),
    st.integers(0, 2**32 - 1),
)
def test_schemas_come_back(names: list[tuple[str, str]], groups: dict[str, tuple[str, ...]], number: int) -> None:
    kinds = list(TYPES)
    schema = Schema(
        tuple(StatisticColumn(tensor, name, kinds[n % len(kinds)]) for n, (tensor, name) in enumerate(names)), groups
    )
    found_number, found = read_schema(block(encode_schema(number, schema)), key="k")
    assert (found_number, found.columns, found.groups) == (number, schema.columns, groups)


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        pytest.param((), "needs a column", id="none"),
        pytest.param((StatisticColumn("a", "l2", "f16"),), "'f16' is not a type. Types: f8, f4", id="an unknown type"),
        pytest.param((StatisticColumn("a", "l2"), StatisticColumn("a", "l2", "f8")), "once", id="the same twice"),
        pytest.param(tuple(StatisticColumn(str(n), "l2", "f8") for n in range(131_072)), "at most", id="too many"),
    ],
)
def test_refuses_what_no_schema_can_be(columns: tuple[StatisticColumn, ...], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Schema(columns)


def test_refuses_a_schema_that_no_reader_would_take() -> None:
    with pytest.raises(ValueError, match="too long"):
        encode_schema(0, Schema((StatisticColumn("x" * MOST_SCHEMA_BYTES, "l2"),)))


def document(**changes: Any) -> bytes:
    fields = {"id": 1, "columns": [{"tensor": "a", "statistic": "l2", "type": "f4"}], "groups": {}, **changes}
    return zlib.compress(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        pytest.param(b"", "cut off", id="empty"),
        pytest.param(b"not zlib", "cannot be inflated", id="not zlib"),
        pytest.param(document()[:-5], "cut off", id="cut off"),
        pytest.param(zlib.compress(b"[]"), "not an object", id="a list"),
        pytest.param(zlib.compress(b"{"), "not whole JSON", id="half JSON"),
        pytest.param(document(id=-1), "id = -1", id="a negative id"),
        pytest.param(document(columns=[]), "needs a column", id="no columns"),
        pytest.param(document(columns=[{"tensor": "a"}]), "no statistic", id="half a column"),
        pytest.param(document(columns=[{"tensor": 1, "statistic": "l2", "type": "f4"}]), "not a text", id="a number"),
        pytest.param(
            document(columns=[{"tensor": "a", "statistic": "l2", "type": "f16"}]), "not a type", id="of the future"
        ),
        pytest.param(document(groups=[1]), "not an object", id="groups in a list"),
        pytest.param(document(groups={"g": "abc"}), "not a list", id="a group that is a text"),
    ],
)
def test_says_what_is_wrong_with_a_schema(payload: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        read_schema(block(payload), key="the key")
    assert caught.value.key == "the key"


def test_a_bomb_is_not_inflated() -> None:
    bomb = zlib.compress(b" " * (MOST_SCHEMA_BYTES + 2))
    assert len(bomb) < 10_000
    with pytest.raises(RecordError, match="when inflated"):
        read_schema(block(bomb), key="k")


ROWS = written(schema_of("f4", "bit"), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        pytest.param(b"", "only 0 bytes", id="empty"),
        pytest.param(ROWS[:11], "only 11 bytes", id="cut in its head"),
        pytest.param(ROWS[:-1], "take 60 bytes; there are 59", id="a byte too few"),
        pytest.param(ROWS + b"x", "take 60 bytes; there are 61", id="a byte too many"),
        pytest.param(struct.pack("<IIB3x", 4, 2**32 - 1, 0), "there are 0", id="a huge count"),
        pytest.param(struct.pack("<IIB3x", 4, 0, 2), "flags 2", id="flags of the future"),
    ],
)
def test_says_what_is_wrong_with_rows(payload: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        read(payload, schema_of("f4", "bit"))
    assert caught.value.offset == 70


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        pytest.param(b"\xff", "not UTF-8", id="no text"),
        pytest.param(
            b'{"format": "trackside-packed-index", "version": 1, "worker": "w"}', "is 'trackside-p", id="other"
        ),
        pytest.param(
            b'{"format": "trackside-statistics", "version": 2, "worker": "w"}', "version 2", id="the next version"
        ),
        pytest.param(b'{"format": "trackside-statistics", "version": 1}', "no worker", id="no worker"),
    ],
)
def test_says_what_is_wrong_with_a_header(payload: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what):
        read_header(block(payload, 0), key="k")


def test_a_row_may_be_as_long_as_is_allowed() -> None:
    assert schema_of(*["f8"] * ((MOST_ROW_BYTES - 25) * 8 // 65)).row_bytes(has_holes=True) <= MOST_ROW_BYTES


GOLDEN_SCHEMA = Schema(
    (
        StatisticColumn("CrossEntropyLoss_output_0", "mean", "f8"),
        StatisticColumn("gradient/Net_a.weight", "l2", "f4"),
        StatisticColumn("gradient/Net_b.weight", "l2", "f4"),
        StatisticColumn("gradient/Net_a.weight", "has_nonfinite", "bit"),
        StatisticColumn("gradient/Net_b.weight", "is_present", "bit"),
        StatisticColumn("Net_a.weight", "update_ratio", "bf16"),
        StatisticColumn("Net_a.weight", "zero_share", "f2"),
        StatisticColumn("Net_a.weight", "zero_count", "i4"),
        StatisticColumn("Net_a.weight", "rank", "u1"),
        StatisticColumn("group/all", "l2", "f4"),
    ),
    {"group/all": ("gradient/Net_a.weight", "gradient/Net_b.weight")},
)
GOLDEN_VALUES = np.array(
    [
        [2.5, 0.5, 0.25, 0, 1, 0.001, 0.75, -7, 200, 1.0],
        [np.nan, np.inf, 1e-40, 1, 0, 3e38, 1.0, 2e9, 0, -1.0],
        [0.1, 0.125, 0, 0, 1, 1.0, 0.0, 1, 1, 2.0],
    ]
)
GOLDEN_MEASURED = np.array([[True] * 10, [True, True, False, True, True] * 2, [True] * 10])


def golden_rows(part: slice) -> bytes:
    steps = np.array([100, 101, 2**40])[part]
    return encode_rows(
        7,
        GOLDEN_SCHEMA,
        steps=steps,
        mode_steps=steps - 100,
        wall_times=steps + 1763700000.25,
        modes=np.array([1, 1, 2])[part],
        values=GOLDEN_VALUES[part],
        measured=GOLDEN_MEASURED[part],
    )


def golden_file() -> bytes:
    return b"".join(
        (
            encode_header("worker_0", number=3),
            encode_block(SCHEMA_KIND, encode_schema(7, GOLDEN_SCHEMA), number=3),
            encode_block(ROWS_KIND, golden_rows(slice(0, 2)), number=3),
            encode_block(ROWS_KIND, golden_rows(slice(2, 3)), number=4),
        )
    )


def test_reads_the_golden_file() -> None:
    found = read_blocks(GOLDEN.read_bytes(), key="golden")
    assert not found.damage
    assert [(b.kind, b.number) for b in found.blocks] == [(0, 3), (1, 3), (2, 3), (2, 4)]
    header, described, *rows = found.blocks
    assert read_header(header, key="golden") == "worker_0"
    number, schema = read_schema(described, key="golden")
    assert (number, schema.columns, schema.groups) == (7, GOLDEN_SCHEMA.columns, GOLDEN_SCHEMA.groups)
    first, second = (read(b.payload, schema) for b in rows)
    assert first["step"].tolist() == [100, 101]
    assert second[["step", "mode_step", "wall_time", "mode"]].tolist() == [
        (2**40, 2**40 - 100, 2**40 + 1763700000.25, 2)
    ]
    columns = [column_of(first, schema, place) for place in range(len(schema.columns))]
    np.testing.assert_equal([values[0] for values, _ in columns][:2], [2.5, 0.5])
    np.testing.assert_equal([values[1] for values, _ in columns][:2], [np.nan, np.inf])
    assert [bool(known[1]) for _, known in columns if known is not None] == [True, True, False, True, True] * 2


def test_writes_the_golden_file() -> None:
    """All but the compressed schema, whose bytes are zlib's own business."""
    blocks = read_blocks(GOLDEN.read_bytes(), key="golden").blocks
    ours = read_blocks(golden_file(), key="ours").blocks
    for golden, own in zip(blocks, ours, strict=True):
        inflate = zlib.decompress if own.kind == SCHEMA_KIND else bytes
        assert inflate(golden.payload) == inflate(own.payload)
