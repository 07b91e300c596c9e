"""Blocks of samples are the samples of their lines."""

from __future__ import annotations

import json
import random

import pytest

from trackside.contracts.errors import RecordError
from trackside.records.machine import system_series
from trackside.records.machine.system_metrics_file import decode_system_metrics
from trackside.records.machine.system_series import decode_system_series

KEY = "1591160699.algo-1.json"
Sample = tuple[str, str, str, str, float, float]


def line(
    value: str = "4.76", *, name: str = "cpu0", kind: str = "cpu", at: str = "1591160699.5", node: str = "algo-1"
) -> str:
    return (
        f'{{"Type":"{kind}","Name":"{name}","Dimension":"CPUUtilization","Value":{value},"NodeId":"{node}",'
        f'"Timestamp":{at}}}\n'
    )


def turns(*values: str) -> str:
    """Three devices that take turns, with each value once for each."""
    return "".join(
        line(value, name=name, at=f"{1591160699 + 0.5 * number}")
        for number, value in enumerate(values)
        for name in ("cpu0", "cpu10", "cpu11")
    )


AWS = (  # the first and last lines of a file that SageMaker wrote, and spaces where it has them
    '{"Type": "cpu", "Name":"cpu0", "Dimension": "CPUUtilization", "Value":4.76,"NodeId":"algo-1",'
    '"Timestamp":1591160699.4570894}\n'
    '{"Type": "gpu", "Name":"gpu1", "Dimension": "GPUMemoryUtilization", "Value":47.76,"NodeId":"algo-1",'
    '"Timestamp":1591170699.4570800}\n'
)
WITHOUT_NAME = '{"Type":"memory","Dimension":"MemoryUsedPercent","Value":5,"NodeId":"algo-1","Timestamp":7.25}\n'
BLOCKS = [
    pytest.param(AWS, id="amazons"),
    pytest.param(turns("0.00", "12.34", "100.00", "7.1"), id="devices-take-turns"),
    pytest.param(line() + turns("1.5", "2.5", "3.5", "4.5", "5.5"), id="the-first-turn-has-one-more"),
    pytest.param(turns("1.5") + line(name="cpu10") + line(name="cpu11") + turns("3.5", "4.5"), id="a-turn-is-short"),
    pytest.param(line() + line("3", name="net", kind="network") + line("4"), id="no-turns"),
    pytest.param(line("3", name="a") + line("4", name="b") + line("5", name="a"), id="names-of-one-length"),
    pytest.param(WITHOUT_NAME + line() + WITHOUT_NAME, id="without-a-name"),
    pytest.param(line("0") + line("-1.5") + line("1e3") + line("2.5E-7") + line("0.1"), id="numbers"),
    pytest.param(
        line("9007199254740991") + line("123456789012345678") + line("0.12345678901234567"), id="long-numbers"
    ),
    pytest.param(line("12345678901234567890123") + line(".".join(["1", "9" * 40])), id="longer-numbers"),
    pytest.param(line("true") + line(" 2"), id="a-truth-and-a-space"),
    pytest.param(line(name="gpu-\u00e9"), id="a-name-in-utf-8"),
]
OTHERS = [  # whose lines are decoded one by one
    pytest.param("", id="empty"),
    pytest.param(line(name="a\\u0041"), id="an-escape"),
    pytest.param(line() + line(node="algo-2"), id="two-machines"),
    pytest.param(json.dumps(dict(reversed(json.loads(line()).items()))) + "\n", id="another-order-of-keys"),
    pytest.param(
        '{"Type":"a","Name":"b","Dimension":"c","Timestamp":2,"NodeId":"n","Value":3}\n',
        id="number-and-moment-changed-over",
    ),
    pytest.param(line() + "\n" + line("2"), id="an-empty-line"),
    pytest.param(line('"4"') + line("5"), id="a-number-as-text"),
]
DAMAGED = [
    pytest.param(line() + line("1.2.3") + line("2"), id="two-points"),
    pytest.param(line() + line("1_0") + line("2"), id="an-underscore"),
    pytest.param(line() + line("nan") + line("2"), id="no-number"),
    pytest.param(line() + line("NaN") + line("2"), id="not-finite"),
    pytest.param(line() + line("1e999") + line("2"), id="infinite"),
    pytest.param(line() + line("null") + line("2"), id="nothing"),
    pytest.param(line() + line("") + line("2"), id="empty-number"),
    pytest.param(line() + line().replace("}", "]") + line("2"), id="another-bracket"),
    pytest.param(line() + "{}\n" + line("2"), id="no-sample"),
    pytest.param(line() + line().replace("Value", "Valua") + line("2"), id="another-key"),
]


@pytest.mark.parametrize("text", [*BLOCKS, *OTHERS, *DAMAGED])
def test_a_block_has_the_samples_of_its_lines(text: str) -> None:
    for end in ("", line()[:40], line()[:-1]):  # whole, cut off, and without the end of a line
        data = (text + end).encode()
        assert by_series(data) == by_line(data), end


@pytest.mark.parametrize("text", BLOCKS)
def test_the_usual_forms_are_read_by_blocks(text: str) -> None:
    assert system_series._series_of(text.encode()) is not None


@pytest.mark.parametrize("text", [*OTHERS, *DAMAGED])
def test_other_forms_are_left_to_the_lines(text: str) -> None:
    assert system_series._series_of(text.encode()) is None


def test_any_damage_is_read_as_the_lines_are() -> None:
    draw = random.Random(21)
    whole = (turns("0.00", "12.34", "7.1") + AWS).encode()
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 5))):
            place = draw.randrange(len(data))
            if draw.random() < 0.3:
                del data[place : place + draw.choice((1, 9, 80))]
            else:
                data[place] = draw.choice(b'0123456789.-"{},:}\n\\ ex\xff')
        assert by_series(bytes(data)) == by_line(bytes(data)), bytes(data)


def by_line(data: bytes) -> tuple[list[Sample], bool]:
    """Return the samples, and whether the file is damaged."""
    found: list[Sample] = []
    try:
        found.extend(
            (s.kind, s.name, s.dimension, s.node, s.timestamp, s.value) for s in decode_system_metrics(data, key=KEY)
        )
    except RecordError:
        return sorted(found), True
    return sorted(found), False


def by_series(data: bytes) -> tuple[list[Sample], bool]:
    found: list[Sample] = []
    try:
        for s in decode_system_series(data, key=KEY):
            numbers = zip(s.times.tolist(), s.values.tolist(), strict=True)
            found += [(s.kind, s.name, s.dimension, s.node, *each) for each in numbers]
    except RecordError:
        return sorted(found), True
    return sorted(found), False
