"""Tensors are found in whatever modules take and give."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import Any

import pytest
import torch

from trackside.frameworks.pytorch.ground.structures import flatten

A, B, C = (torch.tensor(float(number)) for number in range(3))


@dataclasses.dataclass
class Output:
    """As models of one's own give it."""

    first: Any
    second: Any = None


class MappedOutput(collections.OrderedDict[str, Any]):
    """As Hugging Face gives it: a mapping."""


Pair = collections.namedtuple("Pair", ["first", "second"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(A, [A], id="tensor"),
        pytest.param((A, B), [A, B], id="tuple"),
        pytest.param([A, (B, [C])], [A, B, C], id="nested"),
        pytest.param({"y": A, "x": B}, [A, B], id="dict-in-its-order"),
        pytest.param(MappedOutput(loss=A, logits=B), [A, B], id="mapping"),
        pytest.param(types.MappingProxyType({"a": A}), [A], id="mapping-proxy"),
        pytest.param(Output(A, Output([B], C)), [A, B, C], id="dataclass"),
        pytest.param(Pair(A, Pair(B, C)), [A, B, C], id="named-tuple"),
        pytest.param([A, A], [A, A], id="twice-the-same"),
        pytest.param(None, [], id="none"),
        pytest.param("text", [], id="text"),
        pytest.param(b"bytes", [], id="bytes"),
        pytest.param(range(10**9), [], id="range"),
        pytest.param({"a": 1, "b": [2.0, None]}, [], id="numbers"),
        pytest.param(Output, [], id="a-class-is-no-value"),
        pytest.param({A, B}, [], id="sets-have-no-order"),
        pytest.param(object(), [], id="anything-else"),
    ],
)
def test_flattens(value: Any, expected: list[torch.Tensor]) -> None:
    found = list(flatten(value))
    assert len(found) == len(expected)
    assert all(a is b for a, b in zip(found, expected, strict=True))


def test_cycles_and_crowds_end() -> None:
    cycle: list[Any] = [A]
    cycle.append(cycle)
    assert 1 < len(list(flatten(cycle))) < 100
    assert len(list(flatten([A] * 5000))) == 1024
