"""Every function that reads values of a tensor asks `ground/memory.py` first, or says here why the tensor is ours.

A function has asked if it calls the gate, or a question of its file that does (a function that returns a bool), or if
it is private and all functions of its file that call it have asked.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.for_each import for_each

FRAMEWORKS = Path(__file__).parents[2] / "training_lib/src/trackside/frameworks"
ROOMS = ("adapters/keras", "integrations", "rehearsal", "rescue", "speed/pytorch")
FOLDERS = (FRAMEWORKS / "pytorch", *(FRAMEWORKS.parent / room for room in ROOMS))
# `kept` of `losses/attention.py`, `readable_tensors` of `ground/batch_tensors.py` and `is_readable` of
# `ground/initial_values.py` ask themselves.
GATE = {"has_memory", "have_memory", "have_rows", "with_memory", "readable", "kept", "readable_tensors", "is_readable"}
READS = {
    "abs", "add_", "allclose", "aminmax", "any", "argmax", "bincount", "cat", "clone", "coalesce", "contiguous",
    "copy_", "count_nonzero", "cpu", "data_ptr", "detach", "double", "equal", "float", "isfinite", "isnan", "item",
    "masked_fill", "max", "mean", "min", "mul_", "nan_to_num", "norm", "numpy", "reshape", "roll", "select",
    "softmax", "square", "stack", "sum", "to", "to_dense", "to_local", "tolist", "unique", "var", "vector_norm",
    "view", "xlogy",
}  # fmt: skip
READS_OF_GRAPHS = {
    f"_saved_{name}" for name in ("self", "other", "target", "result", "weight", "input", "mat1", "mat2")
}
NO_TENSORS = {"math", "np", "numpy"}  # modules whose functions of the same names read no tensor

_PROBED = "of a model whose `Subject` has asked, or of a replay's own results"
_SEEN = "gradients that `GradientWatch._step` has asked, and copied"
_WITH_GRADIENT = "parameters of `_with_gradient`, which asks"
_OPEN = "of an open reading: `_present`, `is_as_built` and `_closed` have asked"
_SAMPLED = "views whose addresses `is_current` compares right before each reading"
_TAKEN = "chosen by `_is_plain`, or those that `_Plan.fits` has asked about in the same step"
_SENT = "numbers that readers of ours have computed, and losses that were asked for in `Losses.backward_called`"
_COPIED = "`TensorSaver` has asked, and a copy is ours"
# (file, function, or * for all) -> why what it reads is ours, has been asked for, or is no tensor.
OURS: dict[tuple[str, str], str] = {
    ("frameworks/pytorch/facts/detectors/modules/row_places.py", "_is_alike"): "numbers that `_see` has copied",
    ("frameworks/pytorch/facts/detectors/modules/row_places.py", "_are_others"): "numbers that `called` has copied",
    ("frameworks/pytorch/facts/detectors/program/still_targets.py", "_add"): "samples that `sample_of` has copied",
    ("frameworks/pytorch/facts/detectors/program/drifting_data.py", "is_drifting"): "arrays of NumPy that were copied",
    ("frameworks/pytorch/facts/detectors/program/drifting_data.py", "_are_alike"): "arrays of NumPy that were copied",
    (
        "adapters/keras/update_size.py",
        "*",
    ): _SAMPLED,
    ("adapters/keras/facts.py", "_looks_untrained"): "an array of NumPy",
    ("frameworks/pytorch/data/held_out_inputs.py", "*"): "inputs from `readable_tensors`, and sums of them",
    ("frameworks/pytorch/data/held_out_labels.py", "*"): "labels from `readable_tensors`, and their counts",
    ("frameworks/pytorch/data/overlapping_rows.py", "*"): "rows from `readable_tensors`, and digests of them",
    **{
        ("frameworks/pytorch/losses/attention.py", name): "numbers of `_fused` and `_by_hand`"
        for name in ("numbers_of", "see_across", "_largest", "_entropy")
    },
    ("frameworks/pytorch/losses/description.py", "accuracy"): "`LossInputSource.add` has asked",
    ("frameworks/pytorch/losses/detectors/dropouts.py", "share_of_mask"): "a factor from `kept`",
    ("frameworks/pytorch/losses/unrelated_noise.py", "*"): "values from `kept`",
    ("frameworks/pytorch/losses/target_places.py", "target_places"): "places that `_place` has computed",
    ("frameworks/pytorch/losses/targets.py", "_share_outside"): "targets from `kept`, or a difference of such",
    ("frameworks/pytorch/statistics/reductions.py", "_read"): _TAKEN,
    **{
        ("frameworks/pytorch/data/token_batches.py", name): "rows of a batch that `_is_readable` has asked about"
        for name in ("has_end", "numbers", "_firsts")
    },
    ("frameworks/pytorch/data/preference_pairs.py", "*"): "tensors from `_table`, which asks",
    ("frameworks/pytorch/losses/token_weights.py", "taken"): "numbers that `_added` has computed",
    ("frameworks/pytorch/losses/token_weights.py", "_only_cross_entropy"): "it is asked for None alone",
    ("frameworks/pytorch/losses/terms.py", "_term"): "the value of a part, which is computed from kept values",
    ("frameworks/pytorch/losses/terms.py", "sizes"): "sums that `_added` has made or asked for",
    ("rehearsal/questions", "*"): _PROBED,
    ("rehearsal/seen_draws.py", "_are_equal"): "states of random generators, which PyTorch copies",
    ("rehearsal/gradient_changes.py", "_clipping"): _WITH_GRADIENT,
    ("rehearsal/gradient_changes.py", "_step"): _WITH_GRADIENT,
    ("rehearsal/gradient_changes.py", "norm_of"): _WITH_GRADIENT,
    ("rehearsal/gradient_changes.py", "is_without_effect"): _SEEN,
    ("rehearsal/gradient_changes.py", "repeat"): _PROBED,
    ("rehearsal/gradient_changes.py", "share_cut"): _SEEN,
    ("rehearsal/rows.py", "*"): _PROBED,
    ("rehearsal/seen_labels.py", "*"): _PROBED,
    ("rehearsal/step_program.py", "*"): _PROBED,
    ("rehearsal/subject.py", "*"): _PROBED,
    ("rescue/kept_trees.py", "all_finite"): "tensors of `skeleton_of`, which asks",
    ("rescue/kept_trees.py", "write"): "tensors that `fits`, `skeleton_of` or `Members` have asked",
    ("rescue/numbers.py", "*"): "tensors that `_is_dense` and `saw_loss` ask, and norms of them",
    ("rescue/kept_trees.py", "own_part"): "tensors that `fits`, `_is_dense` or `Members` have asked",
    ("rescue/room.py", "_in_file"): "ours",
    ("rescue/softening.py", "before"): "a learning rate",
    ("frameworks/pytorch/saving/device_copies.py", "*"): _COPIED,
    ("frameworks/pytorch/saving/slabs.py", "targets"): "memory of ours",
    ("frameworks/pytorch/script/values.py", "_array"): "an array of NumPy",
    ("frameworks/pytorch/saving/slabs.py", "copies"): _COPIED,
    ("frameworks/pytorch/sharding/shards.py", "shard_of"): "the shape of the local part alone",
    ("frameworks/pytorch/statistics/cleared_gradients.py", "end_step"): "answers of `is_anywhere_nonzero`",
    ("frameworks/pytorch/statistics/device_numbers.py", "*"): _SENT,
    ("frameworks/pytorch/statistics/gradient_numbers.py", "get"): "arrays of NumPy",
    ("frameworks/pytorch/statistics/lost_updates.py", "lost_share"): _OPEN,
    ("frameworks/pytorch/statistics/moments.py", "*"): _TAKEN,
    ("frameworks/pytorch/statistics/readings.py", "_parts"): "an array of NumPy",
    ("frameworks/pytorch/statistics/readings.py", "gradients_in"): "an array of NumPy",
    ("frameworks/pytorch/statistics/readings.py", "count"): _OPEN,
    ("frameworks/pytorch/statistics/tensor_loops.py", "_addresses"): _OPEN,
    ("frameworks/pytorch/statistics/update_size.py", "*"): _SAMPLED,
    ("frameworks/pytorch/steps/graph_looks.py", "_add"): "a number that a look has computed",
    ("frameworks/pytorch/steps/graph_looks.py", "_take"): "norms that `_add_local` has computed",
    ("speed/pytorch/fetch_times.py", "_at"): "a buffer of ours",
}


class Function:
    """What one function of a file does: with the functions inside it, as one."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        inside = list(ast.walk(node))
        self.name = node.name
        self.is_question = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        self.is_private = node.name.startswith("_") and not node.name.startswith("__")
        self.uses = {
            each.id if isinstance(each, ast.Name) else each.attr
            for each in inside
            if isinstance(each, (ast.Name, ast.Attribute))
        }
        self.reads = {each.attr for each in inside if isinstance(each, ast.Attribute) and _is_read(each)}


def _is_read(node: ast.Attribute) -> bool:
    if isinstance(node.value, ast.Name) and node.value.id in NO_TENSORS:
        return False
    return node.attr in READS | READS_OF_GRAPHS or node.attr.startswith("_foreach_")


def functions_of(source: str) -> list[Function]:
    """Return the functions and methods of a file, without those inside of others."""
    return [Function(node) for node in _outermost(ast.parse(source))]


def _outermost(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
        else:
            yield from _outermost(child)


def reads_without_asking(source: str) -> dict[str, set[str]]:
    """Return the functions of a file that read values of tensors, and neither ask nor are called by those that do."""
    functions = functions_of(source)
    callers: dict[str, list[Function]] = defaultdict(list)
    for function in functions:
        for name in function.uses:
            callers[name].append(function)
    gates = _gates(functions)
    asked = {function.name for function in functions if not gates.isdisjoint(function.uses)}
    while True:
        more = {
            function.name
            for function in functions
            if function.name not in asked and function.is_private and _all_asked(function, callers, asked)
        }
        if not more:
            break
        asked |= more
    return {each.name: each.reads for each in functions if each.reads and each.name not in asked}


def _gates(functions: list[Function]) -> set[str]:
    """Return the names of the gate, and of the questions of this file that ask it."""
    gates = set(GATE)
    while True:
        more = {each.name for each in functions if each.is_question and not gates.isdisjoint(each.uses)} - gates
        if not more:
            return gates
        gates |= more


def _all_asked(function: Function, callers: dict[str, list[Function]], asked: set[str]) -> bool:
    others = [caller for caller in callers[function.name] if caller.name != function.name]
    return bool(others) and all(caller.name in asked for caller in others)


def _files() -> list[Path]:
    found = [file for folder in FOLDERS for file in sorted(folder.rglob("*.py"))]
    return [file for file in found if "torch" in file.read_text(encoding="utf-8")]


@for_each({file.relative_to(FRAMEWORKS.parent).as_posix(): (file,) for file in _files()})
def test_reads_only_where_there_is_memory(file: Path) -> None:
    name = file.relative_to(FRAMEWORKS.parent).as_posix()
    found = reads_without_asking(file.read_text(encoding="utf-8"))
    new = {function: sorted(reads) for function, reads in found.items() if not _has_reason(name, function)}
    assert not new, "ask `has_memory` first, or give the reason for which the tensor is ours"


def test_each_reason_is_needed() -> None:
    found = [
        (file.relative_to(FRAMEWORKS.parent).as_posix(), function)
        for file in _files()
        for function in reads_without_asking(file.read_text(encoding="utf-8"))
    ]
    assert not [reason for reason in OURS if not any(_covers(reason, *one) for one in found)]


def _has_reason(file: str, function: str) -> bool:
    return any(_covers(reason, file, function) for reason in OURS)


def _covers(reason: tuple[str, str], file: str, function: str) -> bool:
    place, name = reason
    return (file == place or file.startswith(f"{place}/")) and name in {"*", function}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("def look(t): return t.item()", {"look"}, id="no-question"),
        pytest.param("def look(t): return torch._foreach_norm(t)", {"look"}, id="several-at-once"),
        pytest.param("def look(node): return node._saved_self + 1", {"look"}, id="of-a-graph"),
        pytest.param("def look(t):\n  if has_memory(t): return t.item()", set(), id="asked"),
        pytest.param(
            "def look(t):\n  if has_memory(t): _read(t)\ndef _read(t): t.item()", set(), id="asked-by-the-caller"
        ),
        pytest.param(
            "def look(t):\n  if has_memory(t): _read(t)\ndef other(t): _read(t)\ndef _read(t): t.item()",
            {"_read"},
            id="one-caller-forgot",
        ),
        pytest.param("def look(t):\n  if has_memory(t): read(t)\ndef read(t): t.item()", {"read"}, id="public"),
        pytest.param("def _read(t): t.item()", {"_read"}, id="called-from-nowhere"),
        pytest.param("def look(t): return math.isfinite(t)", set(), id="no-tensor"),
        pytest.param("def look(t): return t.shape", set(), id="reads-no-value"),
    ],
)
def test_finds_reads(source: str, expected: set[str]) -> None:
    assert reads_without_asking(source).keys() == expected
