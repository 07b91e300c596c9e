"""One synthesis of the largest deployment for all tests, whichever process asks first (`assembly` locks)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from docs.permissions import LARGEST
from stacks.assembly import assembly


@pytest.fixture(scope="session")
def context() -> Mapping[str, str]:
    """Beside cdk.json's settings: all that a deployment may have."""
    return LARGEST


@pytest.fixture(scope="session")
def synthesized(context: Mapping[str, str]) -> Path:
    """The cloud assembly."""
    return assembly(context)


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
