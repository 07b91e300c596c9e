"""Adapters as PEFT lays them out: scale, use, merging, and the parameters that an optimizer holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from trackside.contracts.observations import AdapterFacts
from trackside.frameworks.pytorch.facts.detectors.program.adapters import adapters_of


class Layer(nn.Module):
    """A layer with adapters, as of PEFT: of each its scale, its rank and its two matrices."""

    def __init__(self, *names: str, **settings: Any) -> None:
        super().__init__()
        self.base_layer = nn.Linear(4, 4)
        self.scaling, self.r = dict.fromkeys(names, 2.0), dict.fromkeys(names, 3)
        self.lora_A = nn.ModuleDict({name: nn.Linear(4, 3, bias=False) for name in names})
        self.lora_B = nn.ModuleDict({name: nn.Linear(3, 4, bias=False) for name in names})
        self._active_adapter: Any = names[0]
        self.merged_adapters: list[str] = []
        self._disable_adapters = False
        vars(self).update(settings)


class OfScript(Layer):
    """A layer of the script's own with the same attributes."""


class Net(nn.Module):
    """Two such layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


Layer.__module__ = "peft.tuners.lora.layer"


def seen(*layers: nn.Module, trained: str = "default", inference: tuple[str, ...] = ()) -> tuple[AdapterFacts, ...]:
    net = Net(*layers)
    vars(net)["peft_config"] = {
        name: SimpleNamespace(inference_mode=name in inference) for name in ("default", "second")
    }
    held = frozenset(id(p) for name, p in net.named_parameters() if f"lora_A.{trained}." in name)
    return adapters_of([net], held)


USUAL = AdapterFacts("default", 2, 3, 2.0, is_active=True, is_trained=True)
TABLE: dict[str, tuple[tuple[AdapterFacts, ...], AdapterFacts]] = {
    "as usual": (seen(Layer("default"), Layer("default")), USUAL),
    "not trained": (seen(Layer("default"), trained="nothing"), AdapterFacts("default", 1, 3, 2.0, is_active=True)),
    "merged": (
        seen(Layer("default", merged_adapters=["default"])),
        AdapterFacts("default", 1, 3, 2.0, is_active=True, is_trained=True, is_merged=True),
    ),
    "switched off": (
        seen(Layer("default", _disable_adapters=True)),
        AdapterFacts("default", 1, 3, 2.0, is_active=True, is_trained=True, is_off=True),
    ),
    "the largest scale of all layers": (
        seen(Layer("default"), Layer("default", scaling={"default": -9.0})),
        AdapterFacts("default", 2, 3, -9.0, is_active=True, is_trained=True),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_facts_of_an_adapter(name: str) -> None:
    found, wanted = TABLE[name]
    assert found == (wanted,)


def test_two_adapters_of_which_one_was_loaded_for_inference() -> None:
    first, second = seen(Layer("default", "second"), inference=("default",))
    assert (first.is_for_inference, first.is_active, first.is_trained) == (True, True, True)
    assert (second.is_for_inference, second.is_active, second.is_trained) == (False, False, False)


def test_several_active_ones() -> None:
    assert all(one.is_active for one in seen(Layer("default", "second", _active_adapter=["default", "second"])))


@pytest.mark.parametrize(
    "layer",
    [OfScript("default"), nn.Linear(4, 4), Layer("default", scaling=2.0), Layer("default", scaling={"default": "no"})],
    ids=["of the script", "no adapter", "a scale for all", "a scale that is no number"],
)
def test_other_layers_have_none(layer: nn.Module) -> None:
    assert seen(layer) == ()
