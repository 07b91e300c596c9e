"""A warm Python with LightGBM, for scripts whose own start is not what is tested."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.training_lib.frameworks.captured_script import Printed, printed
from tests.warm_python import WarmPython


@pytest.fixture(scope="package")
def warm_lightgbm() -> Iterator[WarmPython]:
    python = WarmPython("lightgbm", ("-W", "ignore"))
    yield python
    python.close()


@pytest.fixture
def warm_printed(warm_lightgbm: WarmPython, tmp_path: Path) -> Printed:
    return partial(printed, warm=(warm_lightgbm, tmp_path))
