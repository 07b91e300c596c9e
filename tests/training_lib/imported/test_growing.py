"""Logs that grow: each look reads what is new, and the end is as if the log had been read at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.training_lib.imported.test_formats import FALLING, KERAS_BAR, LIGHTNING, lines
from trackside.contracts.errors import ConfigurationError, RunNotFoundError
from trackside.imported.finding import Growing, LeftOut, find_logs
from trackside.imported.numbering import NumberedLog
from trackside.records.tensorboard_file import encode_scalar, encode_version

EVENTS = b"".join(
    [encode_version(1.0), *(encode_scalar("loss", x, step=k, wall_time=1.0 + k) for k, x in enumerate(FALLING))]
)
LOGS = {
    "log.jsonl": lines('{{"step": {step}, "loss": {loss}}}\n').encode(),
    "metrics.csv": LIGHTNING.encode(),
    "out.log": lines("step {step} loss {loss}\n").encode(),
    "bar.log": KERAS_BAR.encode(),
    "events.out.tfevents.1.host": EVENTS,
}


def look(path: Path, growing: Growing | None, *, has_ended: bool) -> NumberedLog | None:
    """Return the log as it is; None for one without a loss so far."""
    try:
        (found,) = find_logs(str(path), {}, LeftOut(), growing=growing, has_ended=has_ended)
    except (RunNotFoundError, ConfigurationError):
        return None
    return found


def looks(path: Path, content: bytes, growing: Growing, *, parts: int) -> Iterator[NumberedLog | None]:
    """Let a file grow, and yield each look. What was read is garbage at the next look."""
    for part in range(1, parts + 1):
        path.write_bytes(content[: len(content) * part // parts])
        found = look(path, growing, has_ended=part == parts)
        yield found
        group = "." if "tfevents" in path.name else path.name  # such files are a log by their folder
        ends = growing.series_of(found.log.format, group, (), is_over=False).ends if found else {}
        read = ends.get(path.name, 0)
        content = b"#" * read + content[read:]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("parts", [2, 7])
def test_a_look_reads_what_is_new(name: str, parts: int, tmp_path: Path) -> None:
    path, content = tmp_path / name, LOGS[name]
    path.write_bytes(content)
    at_once = look(path, None, has_ended=True)
    *_, last = looks(path, content, Growing(), parts=parts)
    assert at_once is not None
    assert last is not None
    for column, points in at_once.series.items():
        np.testing.assert_array_equal(last.series[column].values, points.values)
        np.testing.assert_array_equal(last.series[column].steps, points.steps)
    assert last.log.damage == at_once.log.damage


def test_a_line_that_is_not_whole_waits(tmp_path: Path) -> None:
    path, growing = tmp_path / "log.jsonl", Growing()
    path.write_bytes(b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.4')
    first = look(path, growing, has_ended=False)
    assert first is not None
    assert (first.series["loss"].steps.tolist(), first.log.damage) == ([1], ())
    path.write_bytes(path.read_bytes() + b'5}\n{"step": 3, "lo')
    last = look(path, growing, has_ended=True)
    assert last is not None
    assert last.series["loss"].values.tolist() == [0.5, 0.45]
    assert last.log.damage == ("1 line is no JSON object",)


def test_a_log_that_begins_anew_is_read_anew(tmp_path: Path) -> None:
    path, growing = tmp_path / "log.jsonl", Growing()
    path.write_bytes(LOGS["log.jsonl"])
    look(path, growing, has_ended=False)
    path.write_bytes(b'{"step": 1, "loss": 7}\n')
    found = look(path, growing, has_ended=False)
    assert found is not None
    assert found.series["loss"].values.tolist() == [7.0]
