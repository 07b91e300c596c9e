"""The command that installs an extra here: from a clone, beside a wheel, from an address, or with an index."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.extras import (
    EXTRAS,
    Origin,
    extra_of,
    install_command,
    install_elsewhere,
    missing_extra,
    reinstall_command,
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "my clone"
    for extra in EXTRAS.values():
        (folder / extra.folder).mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    for name in ("trackside", "trackside_smdebug", "trackside_localaccount"):
        (tmp_path / f"{name}-0.1.0-py3-none-any.whl").touch()
    (tmp_path / "trackside_smdebug-0.0.9-py3-none-any.whl").touch()
    return tmp_path / "trackside-0.1.0-py3-none-any.whl"


def place_in(command: str) -> list[str]:
    """The arguments of pip, without its own words."""
    return shlex.split(command.partition("install ")[2].partition("   #")[0])


def editable(folder: Path, *, is_editable: bool = True) -> dict[str, Any]:
    return {"url": folder.as_uri(), "dir_info": {"editable": is_editable}}


@pytest.mark.parametrize("extra", [name for name, one in EXTRAS.items() if one.packages])
@pytest.mark.parametrize("origin", [Origin(), Origin(folder=Path("/x")), Origin(address="git+https://h/r@c")])
def test_packages_of_others_are_named_as_they_are(extra: str, origin: Origin) -> None:
    assert place_in(install_command(extra, origin=origin)) == list(EXTRAS[extra].packages)


def test_a_clone_holds_our_packages(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = Origin.of(editable(clone))
    assert (origin.folder, origin.is_editable) == (clone, True)
    monkeypatch.chdir(clone)
    assert place_in(install_command("smdebug", origin=origin)) == ["-e", "./training_lib/compat"]
    assert place_in(install_elsewhere("/usr/bin/python3", origin=origin)) == ["-e", "."]
    monkeypatch.chdir(clone.parent)
    plain = Origin.of(editable(clone, is_editable=False))
    assert place_in(install_command("smdebug", origin=plain)) == ["./my clone/training_lib/compat"]
    (clone.parent / "elsewhere").mkdir()
    monkeypatch.chdir(clone.parent / "elsewhere")
    assert place_in(install_command("localcloud", origin=plain)) == [str(clone / "training_lib" / "localaccount")]


def test_a_wheel_lies_beside_those_of_its_version(wheel: Path) -> None:
    origin = Origin.of({"url": wheel.as_uri(), "archive_info": {"hash": "sha256=0"}})
    assert origin.file == wheel
    beside = str(wheel.with_name("trackside_smdebug-0.1.0-py3-none-any.whl"))
    assert place_in(install_command("smdebug", origin=origin)) == [beside]
    assert place_in(reinstall_command(origin=origin))[-1] == str(wheel)
    assert install_elsewhere("python3.12", origin=origin) == f"python3.12 -m pip install {wheel}"


@pytest.mark.parametrize(
    ("document", "address"),
    [
        pytest.param(
            {"url": "https://host/repo.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "trackside @ git+https://host/repo.git@abc", id="a-repository",
        ),
        pytest.param(
            {"url": "https://host/t-1.whl", "archive_info": {}}, "trackside @ https://host/t-1.whl", id="a-wheel"
        ),
    ],
)  # fmt: skip
def test_an_address_is_given_as_it_is(document: dict[str, Any], address: str) -> None:
    assert place_in(install_elsewhere("python3", origin=Origin.of(document))) == [address]


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param(Origin(), id="an-index"),
        pytest.param(Origin.of({"url": "file:///gone/clone", "dir_info": {}}), id="a-clone-that-is-gone"),
    ],
)
def test_our_own_name_is_never_asked_of_an_index(origin: Origin) -> None:
    for command in (
        install_command("smdebug", origin=origin),
        install_command("localcloud", origin=origin),
        reinstall_command(origin=origin),
        reinstall_command("trackside-smdebug", origin=origin),
        install_elsewhere("python3", origin=origin),
    ):
        assert all(not argument.startswith("trackside") for argument in place_in(command)), command
        assert command.endswith("# in a clone of Trackside's repository")


@pytest.mark.parametrize(
    ("on_path", "has_pip", "begins"),
    [
        pytest.param({"pip": str(Path(sys.executable).parent / "pip")}, True, "pip install ", id="its-own-pip"),
        pytest.param({"pip": "/usr/bin/pip"}, True, f"{sys.executable} -m pip install ", id="a-pip-of-another"),
        pytest.param({}, True, f"{sys.executable} -m pip install ", id="no-pip-on-path"),
        pytest.param({"uv": "/bin/uv", "pip": "/usr/bin/pip"}, False, "uv pip install --python ", id="uv"),
        pytest.param({"pip": "/usr/bin/pip"}, False, f"pip --python {sys.executable} install ", id="without-pip"),
        pytest.param({}, False, "uv pip install --python ", id="neither"),
    ],
)
def test_the_command_is_for_this_environment(
    on_path: dict[str, str], has_pip: bool, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", on_path.get)
    monkeypatch.setattr(PathFinder, "find_spec", lambda name: object() if has_pip else None)
    assert install_command("aws").startswith(begins)


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("botocore.exceptions", "aws"), ("torch", "torch"), ("rich.text", "cli"), ("moto.server", "localcloud"),
        ("smdebug.rules", "smdebug"), ("pandas", ""), ("boto", ""), (None, ""), ("", ""),
    ],
)  # fmt: skip
def test_a_module_belongs_to_one_extra_or_none(module: str | None, extra: str) -> None:
    assert extra_of(module) == extra


def test_the_error_names_package_purpose_and_command() -> None:
    error = missing_extra("parquet")
    assert isinstance(error, ConfigurationError)
    (problem,) = error.problems
    assert problem.what == "pyarrow is not installed, which the export to Parquet needs."
    assert problem.fix == install_command("parquet")
