from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from trackside.contracts.errors import ConfigurationError
from trackside_localaccount.function_files import lay_out_runtime, unpack


def zipped(**files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return packed.getvalue()


def test_later_layers_lie_over_earlier_ones(tmp_path: Path) -> None:
    layers = (zipped(python__a="one", python__b="one"), zipped(python__b="two"))

    files = unpack(zipped(code="c"), layers, tmp_path)

    assert (files.task / "code").read_text() == "c"
    assert [(files.layers / "python" / name).read_text() for name in "ab"] == ["one", "two"]


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    archive = zipped(**{"../../outside": "x", "/absolute": "x"})

    unpack(archive, (), tmp_path / "function")

    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert written
    assert all(path.is_relative_to(tmp_path / "function" / "task") for path in written)
    assert not Path("/absolute").exists()


def test_site_packages_of_a_layer_are_on_the_import_path(tmp_path: Path) -> None:
    layer = zipped(**{"python/lib/python3.12/site-packages/m.py": ""})

    files = unpack(zipped(code="c"), (layer,), tmp_path)

    assert files.layers / "python/lib/python3.12/site-packages" in files.import_path
    assert files.import_path[0] == files.task


def test_the_runtime_offers_what_lambda_does(tmp_path: Path) -> None:
    folder = lay_out_runtime(tmp_path / "runtime")

    names = {path.name.partition(".")[0] for path in folder.iterdir()}
    assert {"awslambdaric", "boto3", "botocore", "urllib3"} <= names
    assert not {"moto", "numpy", "trackside", "pytest"} & names


def test_a_missing_package_is_named_with_what_would_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "awslambdaric" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)

    with pytest.raises(ConfigurationError, match=r"(?s)awslambdaric.*pip install .*training_lib/localaccount"):
        lay_out_runtime(tmp_path / "runtime")
