"""JSON from a run: what it may hold, and how much."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.errors import RecordError
from trackside.records import untrusted_json
from trackside.records.untrusted_json import MOST_JSON_BYTES, MOST_JSON_VALUES, UntrustedJson

KEY = "index/x.json"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        pytest.param(b"\xff", "is not UTF-8", id="no text"),
        pytest.param(b"[" * 100_000, "not JSON that can be read|not whole JSON", id="nested without end"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "not JSON that can be read", id="a number of 5000 digits"),
        pytest.param(b"[]", "is a list, not an object", id="a list"),
        pytest.param(b" " * (MOST_JSON_BYTES + 1), "larger than the 32 MiB", id="too long"),
        pytest.param(
            b'{"a": [' + b"0," * (MOST_JSON_VALUES + 1) + b"0]}", "more than the 2000000 values", id="too many"
        ),
    ],
)
def test_what_is_no_object_is_told(data: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        UntrustedJson.parse(data, key=KEY)
    assert caught.value.key == KEY


HALF = "\ud800"


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda fields: fields.text("text"), id="a text"),
        pytest.param(lambda fields: fields.texts("list"), id="a list of texts"),
        pytest.param(lambda fields: fields.object("object").names(), id="the name of a field"),
    ],
)
def test_half_of_a_surrogate_pair_is_no_text(ask: Callable[[UntrustedJson], object]) -> None:
    """JSON can spell it; no file, terminal or database can hold it."""
    document = {"text": HALF, "list": ["a", HALF], "object": {HALF: 1}}
    fields = UntrustedJson.parse(json.dumps(document).encode(), key=KEY)
    with pytest.raises(RecordError, match="not valid Unicode") as caught:
        ask(fields)
    str(caught.value).encode("utf-8")


def test_whole_surrogate_pairs_are() -> None:
    document = {"text": "\N{GRINNING FACE} größe \0"}
    assert UntrustedJson.parse(json.dumps(document).encode(), key=KEY).text("text") == document["text"]


# What makes the most of a byte, at the limits.
COSTLY = {
    "objects": 'b"[" + b",".join(b\'{"%x":1}\' % i for i in range(MOST_JSON_VALUES // 2 - 9)) + b"]"',
    "names": 'b"{" + b",".join(b\'"%x":1.5\' % i for i in range(MOST_JSON_VALUES - 9)) + b"}"',
    "one wide character": "b'\"\\xf0\\x9f\\x98\\x80' + b\"a\" * (MOST_JSON_BYTES - 99) + b'\"'",
}
MEASURE = """
import resource
from trackside.contracts.errors import RecordError
from trackside.records.untrusted_json import *
data = open({path!r}, "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
UntrustedJson.parse(data, key="x")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
@pytest.mark.parametrize("kind", list(COSTLY))
def test_the_largest_file_that_is_read_costs_350_megabytes_at_most(kind: str, tmp_path: object) -> None:
    path = f"{tmp_path}/data.json"
    content = eval(COSTLY[kind], vars(untrusted_json))  # noqa: S307 - the table above
    with open(path, "wb") as file:
        file.write(b'{"a":' + content + b"}")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(path=path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_SECONDS,
    )
    assert int(done.stdout) < 350, "docs/formats/tensors.md says so"
