"""Experts are found by the shapes of a model's parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ParameterFacts
from trackside.situation.experts import Experts, experts_in, idle_among_others


def trained(module: str, *shape: int, name: str = "weight") -> ParameterFacts:
    return ParameterFacts(f"Net_{module}.{name}", module, shape, "float32", optimizer="SGD")


def modules(*names: str, **types: str) -> tuple[ModuleFacts, ...]:
    return tuple(ModuleFacts(name, types.get(name.rpartition(".")[2], "Part")) for name in names)


ROUTER = trained("moe.gate", 4, 8)
FOUR = tuple(trained(f"moe.experts.{number}.up", 16, 8) for number in range(4))
LIST = ("moe", "moe.gate", "moe.experts", *(f"moe.experts.{n}" for n in range(4)))
EACH = tuple((held.name,) for held in FOUR)
STACKED = (trained("moe.experts", 4, 16, 8, name="up"), trained("moe.experts", 4, 8, 16, name="down"))
ROWS = Experts("moe.experts", "", (), ("Net_moe.experts.up", "Net_moe.experts.down"), 4)


@pytest.mark.parametrize(
    ("names", "parameters", "found"),
    [
        pytest.param(LIST, (ROUTER, *FOUR), (Experts("moe.experts", "", EACH, (), 4),), id="a-list"),
        pytest.param(
            [name.replace(".experts.", ".experts.expert_") for name in LIST],
            (ROUTER, *(replace(p, module=p.module.replace("experts.", "experts.expert_")) for p in FOUR)),
            (Experts("moe.experts", "", EACH, (), 4),),
            id="a-dictionary",
        ),
        pytest.param(
            [name.removeprefix("moe.") for name in LIST],
            (
                replace(ROUTER, module="gate"),
                *(replace(held, module=held.module.removeprefix("moe.")) for held in FOUR),
            ),
            (Experts("experts", "", EACH, (), 4),),
            id="right-below-the-root",
        ),
        pytest.param(
            LIST,
            (trained("moe.router.classifier", 4, 8), *FOUR),
            (Experts("moe.experts", "", EACH, (), 4),),
            id="a-router-with-parts",
        ),
        pytest.param(LIST, (trained("moe", 8, 4), *FOUR), (Experts("moe.experts", "", EACH, (), 4),), id="bare-router"),
        pytest.param(("moe", "moe.gate", "moe.experts"), (ROUTER, *STACKED), (ROWS,), id="rows"),
        pytest.param(LIST, FOUR, (), id="layers-without-a-router"),
        pytest.param(LIST, (trained("moe.gate", 5, 8), *FOUR), (), id="a-matrix-of-another-size"),
        pytest.param(LIST, (trained("moe.a.b.c", 4, 8), *FOUR), (), id="a-matrix-far-below"),
        pytest.param(LIST, (trained("head", 4, 8), *FOUR), (), id="a-matrix-elsewhere"),
        pytest.param(LIST, (ROUTER, replace(FOUR[0], requires_grad=False), *FOUR[1:]), (), id="a-frozen-expert"),
        pytest.param(LIST, (replace(ROUTER, requires_grad=False), *FOUR), (), id="a-frozen-router"),
        pytest.param(("moe", "moe.gate", "moe.experts"), STACKED, (), id="rows-without-a-router"),
        pytest.param(("moe", "moe.gate"), (ROUTER, trained("moe", 1, 16, 8)), (), id="one-row"),
        pytest.param((), (), (), id="nothing"),
    ],
)
def test_where_they_are(names: tuple[str, ...], parameters: tuple[ParameterFacts, ...], found: object) -> None:
    assert experts_in(ModelFacts(modules=modules(*names), parameters=parameters)) == found


@pytest.mark.parametrize("role", ["convolution", "linear", "recurrent"])
def test_known_layers_with_three_dimensions_hold_none(role: str) -> None:
    facts = ModelFacts(
        modules=(ModuleFacts("moe", "Part"), ModuleFacts("moe.conv", "Conv1d", role)),
        parameters=(ROUTER, trained("moe.conv", 4, 16, 3)),
    )
    assert experts_in(facts) == ()


def test_modules_of_two_classes_are_no_experts() -> None:
    facts = ModelFacts(modules=modules(*LIST, **{"3": "Other"}), parameters=(ROUTER, *FOUR))
    assert experts_in(facts) == ()  # three of a kind, and a router for four


@pytest.mark.parametrize(
    ("present", "idle"),
    [
        pytest.param({FOUR[0].name: 1.0}, {held.name for held in FOUR[1:]}, id="one-works"),
        pytest.param({held.name: 0.1 for held in FOUR}, set(), id="all-work"),
        pytest.param({}, set(), id="none-works"),  # then something else is wrong
    ],
)
def test_idle_ones(present: dict[str, float], idle: set[str]) -> None:
    assert idle_among_others(ModelFacts(modules=modules(*LIST), parameters=(ROUTER, *FOUR)), present) == idle
