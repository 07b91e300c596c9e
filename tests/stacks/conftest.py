"""One synthesis for all tests, whichever process asks first (`assembly` locks)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stacks.assembly import assembly


@pytest.fixture(scope="session")
def synthesized() -> Path:
    """The cloud assembly for cdk.json's settings."""
    return assembly()


@pytest.fixture(scope="session")
def templates(synthesized: Path) -> Mapping[str, Mapping[str, Any]]:
    """Stack -> logical id -> resource."""
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())["Resources"]
        for path in sorted(synthesized.glob("*.template.json"))
    }


@pytest.fixture(scope="session")
def resources(templates: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """`stack/logical id` -> resource, of all stacks."""
    return {f"{stack}/{name}": body for stack, found in templates.items() for name, body in found.items()}
