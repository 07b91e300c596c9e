from __future__ import annotations

from typing import Any

import pytest

from trackside.views.dashboard.tensor_tree import MOST_DEPTH, Branch, marked_branches, tree_of


def shape(branch: Branch) -> dict[str, Any]:
    """Return a tree as what it shows: the rest of each tensor's name, and what each branch leads to."""
    return {**{rest: None for _, rest in branch.tensors}, **{one.words: shape(one) for one in branch.branches.values()}}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(["loss"], {"loss": None}, id="one-word"),
        pytest.param(["a.0.weight", "a.0.bias"], {"a.0.": {"weight": None, "bias": None}}, id="a-chain-is-one-branch"),
        pytest.param(["a.0.weight", "a.1.weight"], {"a.": {"0.weight": None, "1.weight": None}}, id="layers"),
        pytest.param(
            [f"a.{k}.{n}" for k in (0, 1) for n in "uvwxyz"],
            {"a.": {f"{k}.": dict.fromkeys("uvwxyz") for k in (0, 1)}},
            id="layers-of-many-tensors",
        ),
        pytest.param(["g/a.w", "a.w"], {"g/a.w": None, "a.w": None}, id="kinds"),
        pytest.param(["a", "a.b"], {"a": None, "a.": {"b": None}}, id="a-name-that-begins-another"),
        pytest.param(["", "...", "//"], {"": None, "...": None, "//": None}, id="only-marks"),
        pytest.param(["b.x", "a.x"], {"b.x": None, "a.x": None}, id="in-the-given-order"),
        pytest.param(
            [f"h.{k}.{part}.w" for k in (0, 1) for part in ("a", "b", "c", "d", "e")],
            {"h.": {f"{k}.": {f"{part}.w": None for part in "abcde"} for k in (0, 1)}},
            id="blocks-of-layers",
        ),
    ],
)
def test_names_are_a_tree(names: list[str], shown: dict[str, Any]) -> None:
    assert shape(tree_of(names)) == shown
    assert sorted(tree_of(names).names()) == sorted(names)


def test_a_name_of_many_parts_is_no_deep_page() -> None:
    name = "a." * 5000 + "w"
    tree = tree_of([name, "a.w"])
    depth = 0
    while tree.branches:
        tree, depth = next(iter(tree.branches.values())), depth + 1
    assert depth <= MOST_DEPTH


def test_branches_above_a_marked_tensor_are_marked() -> None:
    tree = tree_of([f"a.{k}.{part}" for k in (0, 1) for part in "uvwxyz"])
    assert marked_branches(tree, {"a.1.w": 1}) == {"a.", "a.1."}
    assert marked_branches(tree, {}) == frozenset()
