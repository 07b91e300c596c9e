"""Which folders are reached without a link."""

import os
from pathlib import Path

import pytest

from trackside.storage import plain_folders
from trackside.storage.plain_folders import PlainFolders


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders looked at."""
    seen: list[str] = []
    real_lstat = os.lstat

    def lstat(path: str) -> os.stat_result:
        seen.append(os.path.basename(path))
        return real_lstat(path)

    monkeypatch.setattr(os, "lstat", lstat)
    return seen


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        pytest.param("", True, id="the location itself"),
        pytest.param("a", True, id="a folder"),
        pytest.param("a/b", True, id="a folder below"),
        pytest.param("none/at/all", True, id="nothing leads nowhere"),
        pytest.param("file", True, id="a file leads nowhere"),
        pytest.param("file/x", True, id="nor does what is below it"),
        pytest.param("link", False, id="a link"),
        pytest.param("link/b", False, id="a folder below a link"),
        pytest.param("link/none", False, id="nothing below a link"),
        pytest.param("a/dangling", False, id="a link to nothing"),
    ],
)
@pytest.mark.parametrize("trusting", [False, True])
def test_tells_links(tmp_path: Path, folder: str, expected: bool, trusting: bool) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "dangling").symlink_to(tmp_path / "nowhere")
    folders = PlainFolders(str(tmp_path))
    for _ in range(2):
        assert folders.hold(os.path.join(tmp_path, folder).rstrip("/"), trusting=trusting) is expected


def test_the_location_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    assert PlainFolders(f"{tmp_path}/run").hold(f"{tmp_path}/run/a")


def test_a_reader_looks_once_in_a_tenth_of_a_second(tmp_path: Path, looks: list[str]) -> None:
    for step in ("000", "001"):
        (tmp_path / "events" / step).mkdir(parents=True)
    clock = Clock()
    folders = PlainFolders(str(tmp_path), monotonic=clock)
    looks.clear()
    assert folders.hold(f"{tmp_path}/events/000", trusting=True)
    assert folders.hold(f"{tmp_path}/events/000", trusting=True)
    assert looks == ["events", "000"]
    clock.now += 0.05
    assert folders.hold(f"{tmp_path}/events/001", trusting=True)
    assert looks == ["events", "000", "001"], "a new folder costs one look"
    clock.now += 0.06
    assert folders.hold(f"{tmp_path}/events/001", trusting=True)
    assert len(looks) == 3
    assert folders.hold(f"{tmp_path}/events/000", trusting=True)
    assert looks[3:] == ["events", "000"]


def test_a_writer_looks_every_time(tmp_path: Path, looks: list[str]) -> None:
    (tmp_path / "events").mkdir()
    folders = PlainFolders(str(tmp_path), monotonic=Clock())
    looks.clear()
    for _ in range(3):
        assert folders.hold(f"{tmp_path}/events")
    assert looks == ["events"] * 3


@pytest.mark.parametrize("link", ["a", "a/b"])
def test_a_link_in_the_place_of_a_folder_is_seen(tmp_path: Path, link: str) -> None:
    (tmp_path / "run" / "a" / "b").mkdir(parents=True)
    (tmp_path / "outside" / "b").mkdir(parents=True)
    clock = Clock()
    folders, folder = PlainFolders(f"{tmp_path}/run", monotonic=clock), f"{tmp_path}/run/a/b"
    assert folders.hold(folder, trusting=True)
    (tmp_path / "run" / link).rename(tmp_path / "moved")
    (tmp_path / "run" / link).symlink_to(tmp_path / "outside")
    assert not folders.hold(folder), "by a writer at once"
    clock.now += 0.2
    assert not folders.hold(folder, trusting=True), "by a reader soon"


def test_does_not_remember_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_folders, "_MOST_FOLDERS", 3)
    folders = PlainFolders(str(tmp_path))
    for step in range(10):
        (tmp_path / f"{step}").mkdir()
        assert folders.hold(f"{tmp_path}/{step}", trusting=True)
        assert len(folders._seen) <= 3


def test_what_the_system_does_not_say_is_not_plain(tmp_path: Path) -> None:
    assert not PlainFolders(str(tmp_path)).hold(f"{tmp_path}/{'x' * 5000}")
