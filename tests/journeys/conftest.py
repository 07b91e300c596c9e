"""What several journeys need."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "demo" / "drill.py"


@pytest.fixture(scope="module")
def drill() -> ModuleType:
    """`make drill`'s script, as a module."""
    spec = importlib.util.spec_from_file_location("drill", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["drill"] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module
