"""Timelines: ours are read as they were written, whatever is in them; damaged ones are one error."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.exchange.trace_file import TraceSpan, encode_timeline
from trackside.speed.performance.trace_events import decode_trace

KEY = "framework/pevents/hour/1_node_pythontimeline.json"
SPANS = st.lists(
    st.builds(
        TraceSpan,
        phase=st.text(max_size=20),
        name=st.text(max_size=20),
        start=st.floats(1_700_000_000, 1_700_001_000),
        seconds=st.floats(0, 1000),
        arguments=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    ),
    max_size=20,
)


@given(SPANS, st.booleans())
def test_what_we_write_is_read(spans: list[TraceSpan], is_compressed: bool) -> None:
    data = "".join(encode_timeline(spans, base=1_700_000_000.0)).encode()
    found = list(decode_trace(gzip.compress(data) if is_compressed else data, key=KEY, node="worker-0"))
    assert [(event.phase, event.name, event.node) for event in found] == [(s.phase, s.name, "worker-0") for s in spans]
    for event, span in zip(found, spans, strict=True):
        assert abs(event.start - span.start * 1e6) <= 1
        assert abs(event.duration - span.seconds * 1e6) <= 1
        assert (event.arguments or {}) == dict(span.arguments)


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_document_is_events_or_one_error(document: object) -> None:
    with suppress(RecordError):  # and no other error
        list(decode_trace(json.dumps(document).encode(), key=KEY))


IDS = st.integers() | st.text() | st.lists(st.integers(), max_size=1)
FACTS = st.dictionaries(st.sampled_from(["name", "start_time_since_epoch_in_micros"]), st.integers() | st.text())
EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from("XBEMiC")},
    optional={
        "pid": IDS,
        "tid": IDS | st.none(),
        "ts": st.floats() | st.text(),
        "dur": st.integers() | st.floats(),
        "name": st.sampled_from(["process_name", "thread_name", "op"]) | st.none(),
        "args": st.none() | st.text() | FACTS,
    },
)


@given(st.lists(EVENTS, max_size=6))
def test_any_event_is_read_or_one_error(events: list[object]) -> None:
    with suppress(RecordError):  # and no other error
        list(decode_trace(json.dumps(events).encode(), key=KEY))


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_one_error(data: bytes) -> None:
    for content in (data, b"[" + data, b"\x1f\x8b" + data, gzip.compress(data)):
        with suppress(RecordError):
            list(decode_trace(content, key=KEY))


@pytest.mark.parametrize(
    ("node", "shown"),
    [
        pytest.param("17-algo-1", "algo-1-17", id="the process behind the machine"),
        pytest.param("17-host", "17-host", id="another machine"),
        pytest.param("algo-1", "algo-1", id="no process"),
    ],
)
def test_the_name_of_a_node(node: str, shown: str) -> None:
    data = "".join(encode_timeline([TraceSpan("a", "b", 1.0, 1.0)], base=0.0)).encode()
    assert next(decode_trace(data, key=KEY, node=node)).node == shown
