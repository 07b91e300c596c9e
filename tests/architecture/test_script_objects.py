"""Every call into a module or data set of the script goes through `ground/script_objects.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.for_each import for_each

PACKAGE = Path(__file__).parents[2] / "training_lib/src/trackside"
PLACE = PACKAGE / "frameworks/pytorch/ground/script_objects.py"
ROOMS = ("frameworks/pytorch", "rehearsal", "rescue", "speed/pytorch")
FILES = sorted(file for room in ROOMS for file in (PACKAGE / room).rglob("*.py") if file != PLACE)
OVERRIDDEN = {
    "buffers", "children", "eval", "load_state_dict", "modules", "named_buffers", "named_children", "named_modules",
    "named_parameters", "parameters", "state_dict", "train",
}  # fmt: skip
WITHOUT_LENGTH = ("dataset", "sampler", "loader")
# (file, called) -> why it is no object of the script, or why its own answer is what is asked for.
OURS = {
    ("frameworks/pytorch/data/batches.py", "self._rows.train"): "rows that were trained on, which are ours",
    ("frameworks/pytorch/facts/model_facts.py", "self._source.modules"): "the lines of the source, which are ours",
    (
        "rehearsal/questions/checkpoint_roundtrip.py",
        "root.load_state_dict",
    ): "the probe's subject: its error is a fault",
    ("rehearsal/questions/checkpoint_roundtrip.py", "root.state_dict"): "the probe's subject: its error is a fault",
    ("rehearsal/questions/order_dependence.py", "subject.named_modules"): "of the probes' `Subject`",
    ("rehearsal/questions/reached_parameters.py", "subject.named_modules"): "of the probes' `Subject`",
    ("rehearsal/questions/reached_parameters.py", "subject.named_parameters"): "of the probes' `Subject`",
    ("rehearsal/questions/input_dependence.py", "subject.named_modules"): "of the probes' `Subject`",
    ("rehearsal/questions/repeatable_evaluation.py", "subject.named_modules"): "of the probes' `Subject`",
    ("rehearsal/questions/sample_independence.py", "subject.named_modules"): "of the probes' `Subject`",
    ("rehearsal/subject.py", "self.named_modules"): "of the probes' `Subject`",
    ("rescue/snapshot.py", "each.state_dict"): "of PyTorch's schedulers and gradient scalers",
    ("rescue/snapshot.py", "found.load_state_dict"): "of PyTorch's schedulers and gradient scalers",
    ("frameworks/pytorch/steps/graph_looks.py", "self._statistics.parameters"): "of the statistics' own plans",
}


def direct_calls(source: str) -> Iterator[str]:
    """Yield the called expressions that an object of the script may answer in a way of its own."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in OVERRIDDEN:
            yield ast.unparse(node.func)
        elif isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            measured = ast.unparse(node.args[0])
            if measured.rpartition(".")[2].endswith(WITHOUT_LENGTH):
                yield f"len({measured})"


@for_each({file.relative_to(PACKAGE).as_posix(): (file,) for file in FILES})
def test_no_module_or_data_set_is_asked_directly(file: Path) -> None:
    name = file.relative_to(PACKAGE).as_posix()
    found = [call for call in direct_calls(file.read_text(encoding="utf-8")) if (name, call) not in OURS]
    assert not found, "ask it through `ground/script_objects.py`, which knows what to do with an override"


@for_each({"-".join(reason): (reason,) for reason in OURS})
def test_each_reason_is_needed(reason: tuple[str, str]) -> None:
    assert reason[1] in direct_calls((PACKAGE / reason[0]).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("root.named_parameters(remove_duplicate=False)", ["root.named_parameters"], id="module"),
        pytest.param("self.root().eval()", ["self.root().eval"], id="mode"),
        pytest.param("len(iterator._dataset)", ["len(iterator._dataset)"], id="data-set"),
        pytest.param("len(iterator._index_sampler)", ["len(iterator._index_sampler)"], id="sampler"),
        pytest.param("named_parameters_of(root)", [], id="through-the-place"),
        pytest.param("root.training", [], id="attribute"),
        pytest.param("len(batches)", [], id="list"),
    ],
)
def test_finds_direct_calls(source: str, expected: list[str]) -> None:
    assert list(direct_calls(source)) == expected
