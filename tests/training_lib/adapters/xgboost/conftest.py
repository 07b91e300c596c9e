"""A warm Python with XGBoost, for scripts whose own start is not what is tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.warm_python import WarmPython


@pytest.fixture(scope="package")
def warm_xgboost() -> Iterator[WarmPython]:
    python = WarmPython("xgboost", ("-W", "ignore"))
    yield python
    python.close()
