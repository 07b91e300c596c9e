"""The learned tables beside this module: weights of causes, probabilities of issues, and rules with a critical level.

`python -m benchmarks.detection.learn_causes` writes them. docs/causes.md shows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
CAUSES_FILE = FOLDER / "causes.json"
PROBABILITIES_FILE = FOLDER / "probabilities.json"
CRITICAL_FILE = FOLDER / "critical.json"

UNLEARNED = ("not-finite", "worsened", "nothing-learned")  # kinds of harm for a rule that the table does not have yet

Table = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Weights:
    """The weights of evidence for and against causes, in natural logarithms of odds.

    bias     by cause: how common it is
    present  by evidence and cause, where the evidence is present
    absent   by evidence and cause, where the evidence is absent
    """

    bias: Mapping[str, float]
    present: Table
    absent: Table


@dataclass(frozen=True)
class Odds:
    """The weights of a probability that an issue is real, in natural logarithms of odds.

    bias     before any evidence
    rules    by rule
    extra    by property of the issue: `info`, `harm`, `certain`, `with-others`
    """

    bias: float
    rules: Mapping[str, float]
    extra: Mapping[str, float]


@cache
def weights() -> Weights:
    """Return the learned weights of causes."""
    document = _read(CAUSES_FILE)
    return Weights(document["bias"], document["present"], document["absent"])


@cache
def odds() -> Odds:
    """Return the learned weights of the probability of an issue."""
    document = _read(PROBABILITIES_FILE)
    return Odds(document["bias"], document["rules"], document["extra"])


@cache
def critical_harms() -> Mapping[str, tuple[str, ...]]:
    """Return, by rule, the kinds of harm with which it is critical; none for one that never is."""
    return {rule: tuple(harms) for rule, harms in _read(CRITICAL_FILE)["rules"].items()}


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
