"""Which classes have a `train` of their own that must be called."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from trackside.frameworks.pytorch.facts.detectors.modules.own_train import has_own_train


class _Freezes(nn.Module):
    def train(self, mode: bool = True) -> Any:
        self.requires_grad_(False)
        return super().train(mode)


class _HoldsNorms(nn.Module):
    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        for module in self.children():
            module.eval()
        return self


class _ClearsACache(nn.Module):
    def train(self, mode: bool = True) -> Any:
        self.cache = None
        return super().train(mode)


class _DisablesTrain(nn.Module):
    def train(self, mode: bool = True) -> Any:
        return self.eval()


@pytest.mark.parametrize(
    ("kind", "freezes"),
    [
        pytest.param(_Freezes, True, id="freezes"),
        pytest.param(_HoldsNorms, True, id="holds-norms"),
        pytest.param(_ClearsACache, False, id="clears-a-cache"),
        pytest.param(_DisablesTrain, False, id="never-trains"),
        pytest.param(nn.Linear, False, id="torch"),
    ],
)
def test_a_train_of_its_own_that_freezes(kind: type[nn.Module], freezes: bool) -> None:
    assert has_own_train(kind) is freezes
