"""A container that gives root up before it reads anything. Only root can try that."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from trackside.containers.container_user import leave_root

NOBODY = 65534
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def ml_root() -> Iterator[Path]:
    """A job's folder as SageMaker gives it: root's, and readable for all."""
    with tempfile.TemporaryDirectory(prefix="trackside-ml-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "output").mkdir(mode=0o755)
        yield root


def in_a_process(act: Callable[[], None]) -> int:
    """The exit code of a process that does it: 0, or 1 if it raises."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@is_root
def test_it_writes_its_message_and_nothing_else_and_never_comes_back(ml_root: Path) -> None:
    def act() -> None:
        leave_root(ml_root, user=NOBODY)
        assert os.getresuid() == os.getresgid() == (NOBODY,) * 3
        assert os.getgroups() == []
        (ml_root / "output" / "message").write_text("said", encoding="utf-8")
        for forbidden in (partial(os.setuid, 0), (ml_root / "output" / "other").touch):
            with pytest.raises(PermissionError):
                forbidden()

    assert in_a_process(act) == 0
    file = ml_root / "output" / "message"
    assert (file.read_text(encoding="utf-8"), file.stat().st_uid) == ("said", NOBODY)


@is_root
def test_a_link_is_not_followed(ml_root: Path) -> None:
    secret = ml_root / "secret"
    secret.touch()
    (ml_root / "output" / "message").symlink_to(secret)

    def act() -> None:
        leave_root(ml_root, user=NOBODY)
        assert os.getuid() == NOBODY

    assert in_a_process(act) == 0
    assert secret.stat().st_uid == 0


def test_nobody_is_asked_to_become_somebody_else(ml_root: Path) -> None:
    leave_root(ml_root, user=0)
    assert list((ml_root / "output").iterdir()) == []
