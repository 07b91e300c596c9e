"""What a training program is made of: a round trip, the golden file, and files that are none."""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.contracts.model_facts import (
    LossFacts,
    ModelFacts,
    ModuleFacts,
    OptimizerFacts,
    ParameterFacts,
    ProgramFacts,
    at_step,
)
from trackside.contracts.observations import (
    CLIPPINGS,
    PROBABILITY,
    SEES_AHEAD,
    SEQUENCE,
    AdapterFacts,
    CheckpointFacts,
    ClippingFacts,
    LoadFacts,
    Observation,
    ScheduleFacts,
    Section,
    SelectionFacts,
    declared,
)
from trackside.contracts.run_layout import model_facts_key
from trackside.records.model_facts import (
    HEAD_BYTES,
    MOST_REVISIONS,
    decode_facts,
    encode_facts,
    facts_workers,
    read_facts,
)
from trackside.storage.memory import MemoryStore

GOLDEN = Path(__file__).parent / "golden" / "model-facts.json"
FIRST = ModelFacts(
    from_step=0,
    modules=(
        ModuleFacts("Net", "Net", line="train.py:31"),
        ModuleFacts("fc1", "Linear", "linear", in_features=4, out_features=8, line="models/net.py:12"),
        ModuleFacts("act", "ReLU", "activation", "relu", line="models/net.py:13"),
        ModuleFacts("drop", "Dropout", "dropout", is_training=False, observed={PROBABILITY: 0.25}),
    ),
    parameters=(
        ParameterFacts("Net_fc1.weight", "fc1", (8, 4), "float32", optimizer="SGD"),
        ParameterFacts("Net_fc1.bias", "fc1", (8,), "float32", requires_grad=False),
        ParameterFacts("Net_out.weight", "out", (8, 4), "float32", optimizer="SGD", group=1, tied_to="Net_fc1.weight"),
        ParameterFacts("Net_scale", "Net", (), "bfloat16", optimizer="SGD", is_sharded=True),
    ),
    optimizers=(OptimizerFacts("SGD", "SGD", "train.py:33", ({"lr": 0.1, "momentum": 0.0}, {"lr": 0.5}), 3),),
    losses=(
        LossFacts(
            "CrossEntropyLoss_output_0", "CrossEntropyLoss", "mean", 0.25, "softmax", (16, 8), 8, "train.py:40",
            "train.py:41",
        ),
        LossFacts("loss_output_0", scale=-1.0),
    ),
    program=ProgramFacts(
        "/work/train.py", "pytorch", "2.13.0", "bfloat16", True, 2, True, "DDP",
        observed={CLIPPINGS: (ClippingFacts("norm", 1.0, "train.py:42"),)},
    ),
)  # fmt: skip
REVISIONS = (FIRST, replace(FIRST, from_step=2**40, parameters=FIRST.parameters[:1]))

OBSERVED: dict[type, Any] = {
    bool: True, int: 3, float: 0.5, str: "a", ClippingFacts: ClippingFacts("norm", 1.0),
    CheckpointFacts: CheckpointFacts("last.pt", 2, ("a", "b")), LoadFacts: LoadFacts("w", 2, True, "a.py:3"),
    SelectionFacts: SelectionFacts("EarlyStopping", "val_loss", "max"), ScheduleFacts: ScheduleFacts("StepLR", 0.1, 2),
    AdapterFacts: AdapterFacts("default", 4, 8, 2.0, is_trained=True),
}  # fmt: skip
SECTIONS: dict[Section, type] = {
    "modules": ModuleFacts,
    "parameters": ParameterFacts,
    "optimizers": OptimizerFacts,
    "losses": LossFacts,
    "program": ProgramFacts,
}

texts = st.text(max_size=12).map(lambda text: text.encode("utf-8", "ignore").decode())
counts = st.integers(0, 2**62)
numbers = st.floats(allow_nan=False, allow_infinity=False)
shapes = st.lists(counts, max_size=4).map(tuple)
maybe = counts | st.none()
facts = st.builds(
    ModelFacts,
    from_step=st.just(7),
    modules=st.lists(
        st.builds(
            ModuleFacts, texts, texts, texts, texts, st.booleans(), maybe, maybe, texts,
            st.fixed_dictionaries({}, optional={PROBABILITY: numbers, SEQUENCE: st.just((3, 4))}),
        ),
        max_size=3,
    ).map(tuple),
    parameters=st.lists(
        st.builds(ParameterFacts, texts, texts, shapes, texts, st.booleans(), texts, counts, texts, st.booleans()),
        max_size=3,
    ).map(tuple),
    optimizers=st.lists(
        st.builds(
            OptimizerFacts, texts, texts, texts,
            st.lists(st.dictionaries(texts, numbers, max_size=2), max_size=2).map(tuple), counts,
        ),
        max_size=2,
    ).map(tuple),
    losses=st.lists(
        st.builds(LossFacts, texts, texts, texts, numbers, texts, shapes, maybe, texts, texts), max_size=2
    ).map(tuple),
    program=st.builds(
        ProgramFacts, texts, texts, texts, texts, st.booleans(), st.integers(1, 2**40), st.booleans(), texts,
        st.just(0),
        st.lists(st.builds(ClippingFacts, texts, numbers, texts), min_size=1, max_size=2).map(
            lambda found: {CLIPPINGS: tuple(found)}
        ),
    ),
)  # fmt: skip


def value_of(observation: Observation[object]) -> object:
    """Return a value that is not as by default."""
    value = OBSERVED[observation.item or type(observation.default)]
    return (value,) if isinstance(observation.default, tuple) else value


@pytest.mark.parametrize("section", SECTIONS)
def test_all_that_is_known_is_written_and_read(section: Section) -> None:
    values: dict[str, Any] = {"str": "a", "bool": True, "int": 3, "int | None": 3, "float": 0.5}
    values |= {"tuple[int, ...]": (2, 3), "tuple[Mapping[str, float], ...]": ({"lr": 0.5},)}
    values |= {"Mapping[Observation[Any], Any]": {each: value_of(each) for each in declared(section)}}
    kind: Any = SECTIONS[section]
    fact = kind(**{f.name: False if f.default is True else values[str(f.type)] for f in fields(kind)})
    given: dict[str, Any] = {section: fact if section == "program" else (fact,)}
    facts = ModelFacts(**given)
    assert decode_facts(encode_facts([facts]), key="k") == (facts,)


def test_what_is_as_by_default_is_left_out() -> None:
    facts = ModelFacts(modules=(ModuleFacts("rnn", "GRU", observed={SEES_AHEAD: False, SEQUENCE: ()}),))
    (read,) = decode_facts(encode_facts([facts]), key="k")
    assert read.modules == (ModuleFacts("rnn", "GRU"),)


def test_version_1_never_changes() -> None:
    assert decode_facts(GOLDEN.read_bytes(), key="k") == REVISIONS
    assert encode_facts(REVISIONS) == GOLDEN.read_bytes()


def test_fields_that_are_not_known_are_passed_over() -> None:
    data = GOLDEN.read_bytes().replace(b'{"from_step"', b'{"weather": [1], "from_step"')
    assert decode_facts(data.replace(b'"name": "fc1"', b'"name": "fc1", "colour": "red"'), key="k") == REVISIONS


@settings(max_examples=50)
@given(st.lists(facts, max_size=3))
def test_facts_survive(revisions: list[ModelFacts]) -> None:
    assert decode_facts(encode_facts(revisions), key="k") == tuple(revisions)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="no version"),
        pytest.param(b'{"version": 2, "revisions": []}', id="a later version"),
        pytest.param(b'{"version": 1, "revisions": [{}]}', id="no step"),
        pytest.param(b'{"version": 1, "revisions": [{"from_step": 5}, {"from_step": 4}]}', id="steps that go back"),
        pytest.param(b'{"version": 1, "revisions": [{"from_step": 0, "modules": 3}]}', id="modules that are a number"),
        pytest.param(
            b'{"version": 1, "revisions": [{"from_step": 0, "parameters":'
            b' [{"name": "a", "shape": [-1], "dtype": "float32"}]}]}',
            id="a negative shape",
        ),
        pytest.param(
            b'{"version": 1, "revisions": [{"from_step": 0, "optimizers":'
            b' [{"name": "a", "type_name": "b", "groups": [{"lr": 1e999}]}]}]}',
            id="an infinite rate",
        ),
        pytest.param(
            b'{"version": 1, "revisions": [{"from_step": 0, "losses": [{"name": "a", "scale": true}]}]}',
            id="a truth for a number",
        ),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match="k, byte"):
        decode_facts(data, key="k")


@given(st.binary(max_size=60), st.integers(0, 2000))
def test_a_damaged_file_raises_nothing_else(noise: bytes, place: int) -> None:
    data = GOLDEN.read_bytes()
    with contextlib.suppress(RecordError):
        decode_facts(data[:place] + noise + data[place + len(noise) :], key="k")


def test_more_revisions_than_there_may_be_are_left_out() -> None:
    many = [replace(FIRST, from_step=step) for step in range(MOST_REVISIONS + 5)]
    assert len(decode_facts(encode_facts(many), key="k")) == MOST_REVISIONS


def test_a_section_that_is_the_same_is_written_once() -> None:
    assert encode_facts([FIRST, replace(FIRST, from_step=9)]).count(b"models/net.py:12") == 1


def test_the_head_tells_that_there_are_news() -> None:
    head = encode_facts([FIRST])[:HEAD_BYTES]
    assert encode_facts(REVISIONS)[:HEAD_BYTES] != head
    assert encode_facts([FIRST], revision_count=40)[:HEAD_BYTES] != head


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(0, 0, id="the first"),
        pytest.param(4, 0, id="until the second"),
        pytest.param(5, 5, id="from the second on"),
        pytest.param(99, 5, id="and ever after"),
    ],
)
def test_the_revision_that_holds(step: int, expected: int) -> None:
    found = at_step([FIRST, replace(FIRST, from_step=5)], step)
    assert found is not None
    assert found.from_step == expected


def test_before_the_first_revision_the_first_one_holds() -> None:
    assert at_step([replace(FIRST, from_step=5)], 0) == replace(FIRST, from_step=5)
    assert at_step([], 3) is None


@pytest.mark.parametrize(
    ("tensor", "module"),
    [
        pytest.param("Net_fc1.weight", "fc1", id="a parameter"),
        pytest.param("gradient/Net_fc1.bias", "fc1", id="a gradient"),
        pytest.param("act_output_0", "act", id="an output"),
        pytest.param("act_input_3", "act", id="an input"),
        pytest.param("activation_gradient/act_output_0", "act", id="the gradient of an output"),
        pytest.param("Net_scale", "Net", id="of the root itself"),
        pytest.param("CrossEntropyLoss_output_0", None, id="a loss"),
        pytest.param("act_output", None, id="no number"),
        pytest.param("metrics/accuracy", None, id="a metric"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_module_of_a_tensor(tensor: str, module: str | None) -> None:
    found = FIRST.module_of(tensor)
    assert (found.name if found else None) == module


def test_what_is_asked_by_name() -> None:
    assert FIRST.parameter("gradient/Net_fc1.weight") is FIRST.parameters[0]
    assert FIRST.optimizers[0].hyperparameter("lr", group=1) == 0.5
    assert FIRST.optimizers[0].hyperparameter("lr", group=2) is None
    assert FIRST.optimizer("Adam") is None
    assert FIRST.loss("CrossEntropyLoss_output_3") is FIRST.losses[0]
    assert FIRST.loss("MSELoss_output_0") is None


@pytest.mark.parametrize(
    ("type_name", "input_from", "is_twice"),
    [
        pytest.param("CrossEntropyLoss", "softmax", True, id="softmax into cross entropy"),
        pytest.param("CrossEntropyLoss", "log_softmax", True, id="log-softmax into cross entropy"),
        pytest.param("CrossEntropyLoss", "linear", False, id="scores into cross entropy"),
        pytest.param("NLLLoss", "log_softmax", False, id="log-softmax into NLL"),
    ],
)
def test_softmax_twice(type_name: str, input_from: str, is_twice: bool) -> None:
    assert LossFacts("a_output_0", type_name, input_from=input_from).has_softmax_twice == is_twice


def test_workers_and_their_files() -> None:
    store = MemoryStore()
    assert facts_workers(store) == ()
    assert read_facts(store, "worker_0") == ()
    for worker in ("worker_1", "worker_0"):
        store.put(model_facts_key(worker), encode_facts(REVISIONS))
    store.put("model-facts/deeper/worker_2.json", b"")
    assert facts_workers(store) == ("worker_0", "worker_1")
    assert read_facts(store, "worker_1") == REVISIONS
