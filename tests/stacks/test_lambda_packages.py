"""The packages of the functions."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from stacks import lambda_packages as packages


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
    monkeypatch.setattr(packages, "PACKAGES", (*packages.PACKAGES, "more==1"))
    assert packages.packages_folder() != before
