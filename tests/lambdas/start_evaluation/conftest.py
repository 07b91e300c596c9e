"""Each test meets a function that has just been loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lambdas.start_evaluation import started


@pytest.fixture(autouse=True)
def new_copy() -> Iterator[None]:
    started.forget_all()
    yield
    started.forget_all()
