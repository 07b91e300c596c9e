"""A script for each topic that smdebug documents says the same under the real one and ours, on runs of either."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.smdebug import topics_run
from tests.smdebug.sides import HERE, ours, theirs
from trackside.contracts.capture_request import Schedule
from trackside.contracts.run_layout import END_MARKER_KEY, collections_key
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.modes import MODE_NUMBERS
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore

TOPICS = sorted(path.stem for path in (HERE / "topics").glob("*.py"))


def write_with_ours(folder: Path) -> None:
    store = LocalStore(folder)
    for step, mode, mode_step, worker in topics_run.places():
        at = {"step": step, "mode": mode, "mode_step": mode_step, "worker": worker, "wall_time": 1.5}
        tensors = topics_run.tensors(step, mode, mode_step, worker)
        write_step(store, encode_step(tensors, **at))  # type: ignore[arg-type]  # a dict of keywords
    records = [
        CollectionRecord(name, tuple(regexes), tuple(names), schedules=dict.fromkeys(MODE_NUMBERS, Schedule(interval)))
        for name, (regexes, names, interval) in topics_run.COLLECTIONS.items()
    ]
    for worker in topics_run.WORKERS:
        store.put(collections_key(worker), encode_collections(records, num_workers=len(topics_run.WORKERS)))
    store.put(END_MARKER_KEY, b"")


def by_topic(said: str) -> dict[str, list[str]]:
    found = [part.splitlines() for part in said.split("--- ")[1:]]
    return {name: lines for name, *lines in found}


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_each_topic_says_the_same_under_both(smdebug_python: Path, tmp_path: Path, writer: str) -> None:
    real, run = theirs(smdebug_python), tmp_path / "run"
    if writer == "ours":
        write_with_ours(run)
    else:
        real.run(HERE / "topics_run.py", str(run))
    said, expected = (by_topic(side.run(HERE / "play_topics.py", str(run))) for side in (ours(), real))
    assert list(said) == TOPICS
    for topic, lines in said.items():
        assert lines == expected[topic], topic
        assert len(lines) >= 7, topic
