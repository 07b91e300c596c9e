"""The packages of the functions."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from stacks import lambda_packages as packages
from stacks.paths import LAMBDA_PACKAGES

FETCHED = packages.PACKAGES


def test_are_fetched_and_hold_what_the_reactions_import() -> None:
    folder = packages.fetched_packages()
    assert {"aws_lambda_powertools", "aws_xray_sdk", "jmespath", "wrapt"} <= {path.name for path in folder.iterdir()}
    assert not (folder / "botocore").exists()  # Lambda's runtime brings it along
    assert not list(folder.rglob("*x86_64*"))


def test_have_the_version_that_the_tests_run_on() -> None:
    (pinned,) = [package for package in packages.PACKAGES if package.startswith("aws-lambda-powertools==")]
    assert pinned.partition("==")[2] == importlib.metadata.version("aws-lambda-powertools")


def test_the_command_that_fetches_them_is_named_where_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "LAMBDA_PACKAGES", tmp_path)
    with pytest.raises(packages.PackagesMissingError, match=r"-m stacks\.lambda_packages"):
        packages.fetched_packages()


def test_other_versions_are_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = packages.packages_folder()
    monkeypatch.setattr(packages, "PACKAGES", {**packages.PACKAGES, "wrapt==2.5.2": "0" * 64})
    assert packages.packages_folder() != before


def test_a_file_with_another_hash_is_not_taken_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel = tmp_path / "one-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("one.py", "")
        archive.writestr("one-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1\n")
        archive.writestr("one-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("one-1.dist-info/RECORD", "")
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(packages, "LAMBDA_PACKAGES", tmp_path / "packages")
    monkeypatch.setattr(packages, "PACKAGES", {"one==1": "0" * 64})
    with pytest.raises(subprocess.CalledProcessError):
        packages.fetch_packages()
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in capfd.readouterr().err
    assert list((tmp_path / "packages").iterdir()) == []
    monkeypatch.setattr(packages, "PACKAGES", {"one==1": hashlib.sha256(wheel.read_bytes()).hexdigest()})
    assert (packages.fetch_packages() / "one.py").is_file()
    assert len(list((tmp_path / "packages").iterdir())) == 1


def test_are_the_same_in_every_clone() -> None:
    """Each of them is pinned, and nothing in them knows where they were fetched."""
    folder = packages.fetched_packages()
    pinned = {each.partition("==")[0].replace("-", "_") for each in FETCHED}
    assert {path.name.partition("-")[0] for path in folder.glob("*.dist-info")} == pinned
    place = str(LAMBDA_PACKAGES.parents[1]).encode()
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert [path for path in files if place in path.read_bytes()] == []
    listed = [
        (record.parent, line.partition(",")[0])
        for record in folder.glob("*.dist-info/RECORD")
        for line in _lines(record)
    ]
    assert [name for parent, name in listed if not (parent.parent / name).is_file()] == []


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def test_scripts_are_no_longer_listed(tmp_path: Path) -> None:
    info = tmp_path / "one-1.dist-info"
    info.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "one").write_text(f"#!{tmp_path}/python\n", encoding="utf-8")
    (info / "RECORD").write_text("../../bin/one,sha256=x,1\none/__init__.py,sha256=y,2\n", encoding="utf-8")
    packages._remove_scripts(tmp_path)
    assert _lines(info / "RECORD") == ["one/__init__.py,sha256=y,2"]
    assert not (tmp_path / "bin").exists()
