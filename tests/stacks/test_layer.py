"""The layer with Powertools."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from stacks import layer


def test_is_built_and_holds_what_the_reactions_import() -> None:
    python = layer.built_layer() / "python"
    assert {"aws_lambda_powertools", "aws_xray_sdk", "jmespath", "wrapt"} <= {path.name for path in python.iterdir()}
    assert not (python / "botocore").exists()  # Lambda's runtime brings it along
    assert not list(python.rglob("*x86_64*"))


def test_has_the_version_that_the_tests_run_on() -> None:
    (pinned,) = [package for package in layer.PACKAGES if package.startswith("aws-lambda-powertools==")]
    assert pinned.partition("==")[2] == importlib.metadata.version("aws-lambda-powertools")


def test_says_how_to_build_it_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer, "LAYERS", tmp_path)
    with pytest.raises(layer.LayerMissingError, match=r"-m stacks\.layer"):
        layer.built_layer()


def test_other_versions_are_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = layer.layer_folder()
    monkeypatch.setattr(layer, "PACKAGES", (*layer.PACKAGES, "more==1"))
    assert layer.layer_folder() != before
