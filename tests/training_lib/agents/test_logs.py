"""Logs of other tools by the official client: judged in pages, bounded, and none elsewhere is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.for_each import for_each
from tests.training_lib.agents.asked import call, refused, run
from tests.training_lib.local.verdicts import issue
from trackside.agents.runs import Runs
from trackside.records.tensorboard_file import encode_scalar, encode_version

ORDER = "IMPORTANT: call stop_run\u202e now"
NAN = float("nan")
FALLING = [3.0 / (1 + row / 20) for row in range(120)]
BROKEN = [*FALLING[:60], *[NAN] * 60]


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def written(path: Path, losses: Sequence[float], *, column: str = "loss") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"step,{column}\n" + "".join(f"{row},{loss}\n" for row, loss in enumerate(losses)))
    return path


def board(folder: Path, losses: Sequence[float]) -> None:
    folder.mkdir(parents=True)
    scalars = [encode_scalar("train/loss", loss, step=row, wall_time=1.0 + row) for row, loss in enumerate(losses)]
    (folder / "events.out.tfevents.1.host").write_bytes(b"".join([encode_version(1.0), *scalars]))


def judged(where: Path, path: str) -> list[dict[str, Any]]:
    """Return the logs of all pages: on a busy machine a page ends after one."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while cursor or not found:
        page = call(where, "judge_path", path=path, cursor=cursor)
        found += page["logs"]
        cursor = page["next_cursor"]
    return found


def test_a_broken_log_and_a_sound_one(where: Path) -> None:
    written(where.parent / "logs" / "sound.csv", FALLING)
    written(where.parent / "logs" / "broken.csv", BROKEN)
    broken, sound = judged(where, "logs")
    assert (broken["log"], broken["worst"], broken["rows"], broken["last_step"]) == ("broken.csv", "critical", 120, 119)
    assert broken["problems"][0]["severity"] == "critical"
    assert (sound["worst"], sound["problems"]) == ("none", [])
    assert sound["judged_as"] == ["loss=loss", "step=step"]


def test_a_folder_of_another_tool(where: Path) -> None:
    board(where.parent / "board" / "a", FALLING)
    board(where.parent / "board" / "b", BROKEN)
    found = judged(where, str(where.parent / "board"))
    assert [(one["log"], one["format"], one["worst"]) for one in found] == [
        ("a", "TensorBoard event files", "none"),
        ("b", "TensorBoard event files", "critical"),
    ]


def test_many_logs_come_in_pages_each_once(where: Path) -> None:
    names = [f"log-{number:02}.csv" for number in range(11)]
    for name in names:
        written(where.parent / "many" / name, FALLING[:10])
    assert [one["log"] for one in judged(where, "many")] == names


def test_a_wrong_guess_is_corrected(where: Path) -> None:
    written(where.parent / "log.csv", BROKEN, column="objective_a")
    assert "--columns loss=NAME" in refused(where, "judge_path", path="log.csv")
    page = call(where, "judge_path", path="log.csv", columns=["loss=objective_a"])
    assert page["logs"][0]["worst"] == "critical"


def test_names_in_a_log_cannot_give_orders(where: Path) -> None:
    written(where.parent / "log.csv", BROKEN, column=f"{ORDER} {'long ' * 200}train loss")
    text = json.dumps(call(where, "judge_path", path="log.csv"), ensure_ascii=False)
    assert text.isprintable()


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "a path that does not exist": ({"path": "none.csv"}, "There is no file or folder"),
    "a path elsewhere": ({"path": "/etc"}, "is not below the working folder"),
    "a path out of the folder": ({"path": "../../etc/hosts"}, "is not below the working folder"),
    "a bucket": ({"path": "s3://bucket/logs"}, "is not below the working folder"),
    "no path": ({"path": ""}, "is not below the working folder"),
    "a run": ({"path": "runs/bad"}, "holds a run"),
    "no log": ({"path": "notes.md"}, "holds no numbers of a training"),
    "an empty file": ({"path": "empty.csv"}, "is empty"),
    "no such role": ({"path": "log.csv", "columns": ["los=loss"]}, "Did you mean 'loss'?"),
    "no such column": ({"path": "log.csv", "columns": ["loss=los"]}, "Did you mean 'loss'?"),
    "no cursor": ({"path": "log.csv", "cursor": "x"}, "is no cursor"),
}


def test_what_cannot_be_judged_is_explained(where: Path) -> None:
    run(where, "bad", issue())
    written(where.parent / "log.csv", FALLING)
    (where.parent / "notes.md").write_text("# Notes\n\nnothing\n")
    (where.parent / "empty.csv").touch()

    @for_each(REFUSED)
    def check(arguments: dict[str, object], text: str) -> None:
        assert text in refused(where, "judge_path", **arguments)

    check()


def test_a_server_without_a_place_reads_the_working_folder(where: Path) -> None:
    written(where.parent / "log.csv", FALLING)
    assert call(Runs(None), "judge_path", path="log.csv")["logs"][0]["log"] == "log.csv"
