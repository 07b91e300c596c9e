"""One line a verdict, each once, whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.sink import UndeliveredError
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore


def verdict(name: str, outcome: Outcome = Outcome.CLEAN) -> Verdict:
    return Verdict("digits", name, name, outcome, Severity.INFO, 3, "All is well – mostly.", 1.5)


def test_each_verdict_is_a_line_and_none_is_written_twice(tmp_path: Path) -> None:
    a, b = verdict("a"), verdict("b")
    JsonLinesSink(LocalStore(tmp_path)).emit([a])
    sink = JsonLinesSink(LocalStore(tmp_path))  # a restarted evaluator
    sink.emit([a, b, b])
    sink.emit([b])
    sink.emit([verdict("a", Outcome.ISSUE_FOUND)])
    lines = (tmp_path / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [Verdict.from_json(line) for line in lines] == [a, b, verdict("a", Outcome.ISSUE_FOUND)]


@pytest.mark.parametrize("before", [b"not json\n", b"[1]\n", b'{"id": 3}', b"\xff\xfe\n"])
def test_a_strange_line_stays_and_hinders_nothing(before: bytes) -> None:
    store = MemoryStore()
    store.put("verdicts.jsonl", before)
    JsonLinesSink(store).emit([verdict("a")])
    lines = store.get("verdicts.jsonl").splitlines()
    assert lines[0] == before.strip()
    assert Verdict.from_json(lines[1].decode()) == verdict("a")


def test_a_full_disk_is_undelivered_and_leaves_the_file_as_it_was() -> None:
    class Full(MemoryStore):
        is_full = False

        def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
            if self.is_full:
                raise StorageUnavailableError(errno.ENOSPC, "No space left on device")
            super().put(key, data)

    store = Full()
    sink = JsonLinesSink(store)
    sink.emit([verdict("a")])
    store.is_full = True
    with pytest.raises(UndeliveredError, match="No space") as caught:
        sink.emit([verdict("b")])
    assert caught.value.undelivered == (verdict("b"),)
    store.is_full = False
    sink.emit([verdict("b")])
    assert store.get("verdicts.jsonl").count(b"\n") == 2


def test_a_file_that_is_too_large_is_left_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "verdicts.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UndeliveredError, match="larger than"):
        JsonLinesSink(LocalStore(tmp_path)).emit([verdict("a")])
    assert (tmp_path / "verdicts.jsonl").stat().st_size == 1 << 40
