"""Checkpoints on the disk: nothing is lost, whichever call of the system fails, and a second try makes it good."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trackside.rescue.restarting.checkpoint_choice import place_aside
from trackside.rescue.restarting.set_aside import drop_copy, keep_copy, make_places, move_aside, restore

_CALLS = ("rename", "replace", "link", "symlink", "makedirs")


class Checkpoints(NamedTuple):
    """Files of a script: numbered checkpoints, what points to the newest, and a copy of it under a name of its own."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def asides(self) -> tuple[str, ...]:
        return tuple(place_aside(self.path(name), "run-1") for name in ("step_300", "last.pt"))

    def move(self, copy: str) -> None:
        good = self.path("step_200")
        move_aside(self.asides, good=good, copy=copy, aliases=(self.path("last.pt"),))

    def content(self) -> dict[str, str]:
        files = [each for each in self.folder.rglob("*") if not each.is_dir() or each.is_symlink()]
        return {
            str(each.relative_to(self.folder)): os.readlink(each) if each.is_symlink() else each.read_text()
            for each in files
        }


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    for step in (200, 300):
        (tmp_path / f"step_{step}").mkdir()
        (tmp_path / f"step_{step}" / "model.pt").write_text(f"weights {step}")
    (tmp_path / "last.pt").write_text("weights 300")
    (tmp_path / "latest").write_text("step_300\n")
    (tmp_path / "newest").symlink_to("step_300")
    (tmp_path / "notes").write_text("step_300 was the best of all")
    return Checkpoints(tmp_path)


def test_later_ones_are_moved_and_what_points_to_them_is_turned(checkpoints: Checkpoints) -> None:
    checkpoints.move(checkpoints.path("step_200/model.pt"))
    aside = ".trackside-set-aside/run-1"
    assert checkpoints.content() == {
        "step_200/model.pt": "weights 200",
        "last.pt": "weights 200",
        "latest": "step_200\n",
        "newest": "step_200",
        "notes": "step_300 was the best of all",
        f"{aside}/step_300/model.pt": "weights 300",
        f"{aside}/last.pt": "weights 300",
        f"{aside}/latest": "step_300\n",
        f"{aside}/newest": "step_300",
    }


def _failing(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return function(*args, **named)

    return call


@pytest.mark.parametrize("call", range(1, 9))
def test_a_failure_in_the_middle_loses_nothing_and_is_made_good(
    call: int, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, left = set(checkpoints.content().values()), [call]
    with monkeypatch.context() as patched:
        for name in _CALLS:
            patched.setattr(os, name, _failing(getattr(os, name), left))
        with pytest.raises(OSError, match="No space"):
            checkpoints.move(checkpoints.path("step_200/model.pt"))
    assert before <= set(checkpoints.content().values()) | {"step_200", "step_200\n"}
    checkpoints.move(checkpoints.path("step_200/model.pt"))
    found = checkpoints.content()
    assert found["last.pt"] == "weights 200"
    assert (found["latest"], found["newest"]) == ("step_200\n", "step_200")
    assert before <= set(found.values())
    assert not [name for name in found if name.endswith("partial")]


@pytest.mark.parametrize("good", ["step_200", "last.pt"], ids=["folder", "file"])
def test_the_copy_of_a_checkpoint_puts_it_back_and_is_dropped(good: str, checkpoints: Checkpoints) -> None:
    before, path = checkpoints.content(), checkpoints.path(good)
    copy = keep_copy(path, "run-1")
    restore(path, copy)  # it is there
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    restore(path, copy)
    drop_copy(copy)
    assert checkpoints.content() == before
    assert not (checkpoints.folder / ".trackside-set-aside").exists()


def test_without_room_no_copy_is_begun(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(OSError, match=r"a copy of .* needs"):
        keep_copy(checkpoints.path("step_200"), "run-1")
    assert not (checkpoints.folder / ".trackside-set-aside").exists()


def test_a_copy_that_fails_leaves_nothing(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_from: str, to: str, **_: Any) -> None:
        os.makedirs(to)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(OSError, match="No space"):
        keep_copy(checkpoints.path("step_200"), "run-1")
    assert not (checkpoints.folder / ".trackside-set-aside").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_met_before_anything_is_moved(checkpoints: Checkpoints) -> None:
    checkpoints.folder.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            make_places(checkpoints.asides)
    finally:
        checkpoints.folder.chmod(0o700)
