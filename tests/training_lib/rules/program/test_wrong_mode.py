"""wrong-mode: the model trains in evaluation mode, or is evaluated in training mode."""

from __future__ import annotations

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ProgramFacts
from trackside.contracts.observations import EVALUATION_LINE, OWN_TRAIN_UNUSED, PROBABILITY, TRAINING_MODE_EVALUATIONS
from trackside.rules.program.wrong_mode import WrongMode
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = "CrossEntropyLoss_output_0"


def net(*children: ModuleFacts, training: bool = False) -> tuple[ModuleFacts, ...]:
    return (ModuleFacts("Net", "Net", is_training=training), *children)


def module(
    name: str, type_name: str, role: str, *, training: bool = False, probability: float | None = None
) -> ModuleFacts:
    return ModuleFacts(
        name, type_name, role, is_training=training, observed={PROBABILITY: probability}, line="model.py:3"
    )


DROP, NORM = module("drop", "Dropout", "dropout", probability=0.5), module("bn", "BatchNorm2d", "normalization")
LINEAR = module("fc", "Linear", "linear")


def case(
    name: str, *revisions: tuple[int, tuple[ModuleFacts, ...]], fires: tuple[str, ...] = (), steps: int = 30
) -> RuleCase:
    facts = tuple(ModelFacts(from_step=step, modules=modules) for step, modules in revisions)
    return RuleCase(name, recorded={LOSS: {"mean": steady(1.0, steps)}}, fires=fires, facts=facts)


CASES = [
    case("dropout", (0, net(LINEAR, DROP)), fires=("drop",)),
    case("batch norm", (0, net(LINEAR, NORM)), fires=("bn",)),
    case("both", (0, net(DROP, NORM)), fires=("drop", "bn")),
    case(
        "since an evaluation",
        (0, net(module("drop", "Dropout", "dropout", training=True), training=True)),
        (12, net(DROP)),
        fires=("drop",),
    ),
    case("a dropout that does not say", (0, net(module("drop", "MyDrop", "dropout"))), fires=("drop",)),
    case(
        "its own train is never called",
        (0, (ModuleFacts("Net", "Net", observed={OWN_TRAIN_UNUSED: True}),)),
        fires=("Net",),
    ),
    case("not yet", (20, (ModuleFacts("Net", "Net", observed={OWN_TRAIN_UNUSED: True}),))),
    case(
        "called late",
        (0, (ModuleFacts("Net", "Net", observed={OWN_TRAIN_UNUSED: True}),)),
        (21, (ModuleFacts("Net", "Net"),)),
    ),
    case("train mode", (0, net(module("drop", "Dropout", "dropout", training=True), training=True))),
    case("frozen batch norm", (0, net(NORM, training=True))),
    case("nothing that differs", (0, net(LINEAR, module("ln", "LayerNorm", "normalization")))),
    case("dropout of nothing", (0, net(module("drop", "Dropout", "dropout", probability=0.0)))),
    case("back in train mode", (0, net(DROP)), (12, net(DROP, training=True))),
]

test_cases = every_case(WrongMode(), CASES)


TRAINS, NORMS = (
    module("drop", "Dropout", "dropout", training=True, probability=0.5),
    module("bn", "BatchNorm2d", "normalization", training=True),
)
ALIKE = module("ln", "LayerNorm", "normalization", training=True)


def evaluated(
    name: str, times: int, *modules: ModuleFacts, fires: tuple[str, ...] = (), training: bool = True, steps: int = 30
) -> RuleCase:
    program = ProgramFacts(observed={TRAINING_MODE_EVALUATIONS: times, EVALUATION_LINE: "train.py:88" if times else ""})
    facts = (
        ModelFacts(modules=net(*modules, training=training)),
        ModelFacts(from_step=12, modules=net(*modules, training=training), program=program),
    )
    return RuleCase(name, recorded={LOSS: {"mean": steady(1.0, steps)}}, fires=fires, facts=facts)


EVALUATED = [
    evaluated("dropout", 2, LINEAR, TRAINS, fires=("drop",)),
    evaluated("batch norm", 3, NORMS, fires=("bn",)),
    evaluated("both", 3, TRAINS, NORMS, fires=("drop", "bn")),
    evaluated("dropout, batch norm frozen", 2, TRAINS, NORM, fires=("drop",)),
    evaluated("once only", 1, TRAINS),
    evaluated("never", 0, TRAINS),
    evaluated("nothing that differs", 3, LINEAR, ALIKE),
    evaluated("what differs is in evaluation mode", 3, NORM),
]

test_evaluations_in_training_mode = every_case(WrongMode(), EVALUATED)


def test_it_says_where_the_evaluation_is() -> None:
    (finding,) = assert_case(WrongMode(), EVALUATED[0])
    assert (finding.since_step, finding.place, finding.observed) == (12, "train.py:88", 2.0)


def test_a_few_steps_are_no_verdict() -> None:
    assert_case(WrongMode(), case("just begun", (0, net(DROP)), steps=3))
    assert_case(WrongMode(), case("just changed", (0, net(DROP, training=True)), (28, net(DROP))))


def test_it_says_since_when_and_where() -> None:
    (finding,) = assert_case(WrongMode(), CASES[3])
    assert (finding.since_step, finding.place) == (12, "model.py:3")
    assert [s.cause for s in WrongMode().suspicions([finding], CASES[3].window)] == [Cause.TRAIN_EVAL_MODE]


def test_what_it_lacks() -> None:
    assert WrongMode().lacks(RuleCase("an old run", recorded={LOSS: {"mean": steady(1.0)}}).window)
    assert WrongMode().lacks(CASES[5].window) == ""
