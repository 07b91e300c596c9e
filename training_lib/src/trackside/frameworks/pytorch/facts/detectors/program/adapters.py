"""The adapters of PEFT in the trained models: their scale, and whether layers call them and an optimizer holds them.

The library is recognised by its modules, so that it is not imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import ADAPTERS, AdapterFacts
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.script_objects import attribute_of, modules_of
from trackside.frameworks.shared.detectors import watches

MOST_ADAPTERS, MOST_OPTIMIZERS = 8, 8
_LIBRARY = "peft"
_PARTS = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B")


@watches(ADAPTERS)
class Adapters:
    """The adapters of the trained models, and the parameters that optimizers hold."""

    def __init__(self, watch: Watch) -> None:
        self._held: dict[int, frozenset[int]] = {}  # by optimizer; kept at the end, when these may be gone

    def before_step(self, optimizer: Optimizer) -> None:
        """Note the parameters that an optimizer steps."""
        if _LIBRARY in sys.modules:
            held = (p for group in optimizer.param_groups for p in group["params"])
            self._held.pop(id(optimizer), None)
            self._held[id(optimizer)] = frozenset(id(p) for p in held if p.requires_grad)
            if len(self._held) > MOST_OPTIMIZERS:
                del self._held[next(iter(self._held))]

    def of(self, watch: Watch) -> tuple[AdapterFacts, ...]:
        """Return the facts of each adapter."""
        if _LIBRARY not in sys.modules:
            return ()
        held = frozenset[int]().union(*self._held.values())
        return adapters_of([root for _, root in watch.names.roots()], held)


def adapters_of(roots: list[nn.Module], held: frozenset[int]) -> tuple[AdapterFacts, ...]:
    """Return the facts of the adapters of some models.

    Args:
        roots: The models.
        held: The ids of the parameters that optimizers hold, of those that require a gradient.
    """
    found: dict[str, AdapterFacts] = {}
    for root in roots:
        settings = attribute_of(root, "peft_config", None)
        for module in modules_of(root):
            for one in _of_layer(module, held, settings if isinstance(settings, Mapping) else {}):
                known = found.get(one.name)
                found[one.name] = one if known is None else _together(known, one)
    return tuple(list(found.values())[:MOST_ADAPTERS])


def _of_layer(module: nn.Module, held: frozenset[int], settings: Mapping[str, Any]) -> Iterator[AdapterFacts]:
    own = vars(module)
    scaling, ranks = own.get("scaling"), own.get("r")
    is_of_library = type(module).__module__.partition(".")[0] == _LIBRARY
    if not is_of_library or not isinstance(scaling, Mapping) or not isinstance(ranks, Mapping):
        return
    active = attribute_of(module, "_active_adapter", ())
    for name, factor in scaling.items():
        if isinstance(factor, (int, float)):
            yield AdapterFacts(
                str(name),
                1,
                int(ranks.get(name, 0)),
                float(factor),
                is_active=name == active or (not isinstance(active, str) and name in active),
                is_trained=any(id(p) in held for p in _parameters(module, name)),
                is_merged=name in (own.get("merged_adapters") or ()),
                is_off=bool(own.get("_disable_adapters", False)),
                is_for_inference=bool(attribute_of(settings.get(name), "inference_mode", False)),
            )


def _parameters(module: nn.Module, name: str) -> Iterator[nn.Parameter]:
    for part in _PARTS:
        holder = module._modules.get(part, module._parameters.get(part))
        one = holder[name] if holder is not None and name in holder else None  # type: ignore[index,operator] # dicts of torch.nn
        if isinstance(one, nn.Module):
            yield from one._parameters.values()  # type: ignore[misc] # a bias may be None
        elif isinstance(one, nn.Parameter):
            yield one


def _together(one: AdapterFacts, other: AdapterFacts) -> AdapterFacts:
    return replace(
        one,
        layer_count=one.layer_count + other.layer_count,
        rank=max(one.rank, other.rank),
        scaling=max(one.scaling, other.scaling, key=abs),
        is_active=one.is_active or other.is_active,
        is_trained=one.is_trained or other.is_trained,
        is_merged=one.is_merged or other.is_merged,
        is_off=one.is_off or other.is_off,
    )
