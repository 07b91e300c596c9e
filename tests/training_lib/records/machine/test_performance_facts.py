"""The facts about a worker's speed: a round trip, files of before, and files that are none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.records.machine.performance_facts import (
    CollectiveFacts,
    GarbageFacts,
    HangFacts,
    LineSamples,
    LoaderFacts,
    PerformanceFacts,
    QueueFacts,
    decode_performance,
    encode_performance,
)

texts, counts, truths = st.text(max_size=20), st.integers(0, 2**53), st.booleans()
seconds = st.floats(0, 1e9)
loaders = st.builds(
    LoaderFacts,
    *[texts] * 6,
    *[counts] * 3,
    is_pinned=truths,
    is_iterable=truths,
    batch_bytes=counts,
)
lines = st.builds(LineSamples, texts, texts, texts, texts, texts, truths, counts)
hangs = st.builds(HangFacts, texts, counts, seconds, seconds, seconds, texts, texts, texts, texts, truths)
facts = st.builds(
    PerformanceFacts,
    texts,
    counts,
    counts,
    counts,
    st.lists(loaders, max_size=3).map(tuple),
    st.lists(lines, max_size=3).map(tuple),
    st.none() | hangs,
    st.none() | st.builds(CollectiveFacts, seconds, seconds, counts),
    st.none() | st.builds(GarbageFacts, counts, seconds, seconds, counts, texts, texts, texts),
    queues=st.lists(st.builds(QueueFacts, texts, texts, counts, seconds, counts, seconds), max_size=3).map(tuple),
)


@given(facts)
def test_facts_survive(found: PerformanceFacts) -> None:
    assert decode_performance(encode_performance(found), key="k") == found


LOADER = LoaderFacts("a", "b", "c", "d", "e", "f", 1, 2, 3, is_pinned=True, is_iterable=False)


def test_a_file_of_an_older_version_is_read() -> None:
    expected = PerformanceFacts(processors=4, loaders=(LOADER,))
    document = json.loads(encode_performance(expected))
    for name in ("hangs", "collectives", "garbage"):
        del document[name]
    del document["loaders"][0]["batch_bytes"]
    assert decode_performance(json.dumps(document).encode(), key="k") == expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"{}", id="no-version"),
        pytest.param(b'{"version": 2}', id="a-newer-version"),
        pytest.param(b"\xff", id="no-text"),
        pytest.param(
            encode_performance(PerformanceFacts()).replace(b'"hangs": []', b'"hangs": [{"phase": 1}]'), id="no-hang"
        ),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_performance(data, key="k")
