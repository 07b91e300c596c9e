"""parameters-not-trained: parameters that should train, and do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, OptimizerFacts, ParameterFacts, ProgramFacts
from trackside.contracts.observations import HAS_CHANGED, HAS_GRADIENT, LOOKS_UNTRAINED
from trackside.contracts.verdict import Severity
from trackside.rules.program.parameters_not_trained import NO_MODULE, NO_OPTIMIZER, ParametersNotTrained
from trackside.testing.rule_case import RuleCase, assert_case, replay

STEPS = 330
RATE = "hyperparameters/SGD/group_0/lr"
BODY = ParameterFacts("Net_body.weight", "body", (64, 64), "float32", optimizer="SGD", observed={HAS_GRADIENT: True})
HEAD = replace(BODY, name="Net_head.weight", module="head", shape=(10, 64))
OUTSIDE: dict[str, Any] = {"optimizer": ""}
UNSEEN: dict[str, Any] = {"observed": {}}
FROZEN: dict[str, Any] = {"requires_grad": False, **UNSEEN}
DRAWN: dict[str, Any] = {"requires_grad": False, "observed": {LOOKS_UNTRAINED: True}}
SGD, ADAM = OptimizerFacts("SGD", "SGD"), OptimizerFacts("Adam", "Adam")
KEPT = replace(HEAD, **FROZEN, optimizer="")
BY_ADAM, KEPT_BY_ADAM = replace(BODY, optimizer="Adam"), replace(KEPT, optimizer="Adam")
MODULES = (ModuleFacts("head", "Linear", "linear", line="model.py:8"),)


def rows(*, head: float = 1.0, present: float = 1.0, update: float = 1e-3, rate: float = 0.1) -> Mapping[str, Any]:
    """Statistics in which the body trains; what is said of the head is said here."""
    return {
        RATE: {"mean": steady(rate, STEPS)},
        BODY.name: {"update_l2": steady(1e-2, 6, every=10)},
        BODY.gradient: {"l2": steady(1.0, STEPS), "is_present": steady(1.0, STEPS)},
        HEAD.name: {"update_l2": steady(update, 6, every=10)},
        HEAD.gradient: {"l2": steady(head, STEPS), "is_present": steady(present, STEPS)},
    }


def case(
    name: str,
    *parameters: ParameterFacts,
    fires: tuple[ParameterFacts, ...] = (),
    recorded: Mapping[str, Any] | None = None,
    optimizers: tuple[OptimizerFacts, ...] = (SGD,),
    before: tuple[ParameterFacts, ...] = (),
    step: int | None = None,
) -> RuleCase:
    facts = ModelFacts(parameters=parameters, optimizers=optimizers, modules=MODULES)
    revisions = (replace(facts, parameters=before), replace(facts, from_step=20)) if before else (facts,)
    names = tuple(parameter.name for parameter in fires)
    return RuleCase(name, recorded=rows() if recorded is None else recorded, facts=revisions, fires=names, step=step)


def short(recorded: Mapping[str, Any], *, steps: int = 100) -> Mapping[str, Any]:
    """The first hundred steps of it, or fewer: a run that has ended."""
    return {
        name: {of: {step: value for step, value in column.items() if step < steps} for of, column in statistics.items()}
        for name, statistics in recorded.items()
    }


EARLY, BRIEF = short(rows()), short(rows(), steps=20)
NEVER_SEEN = rows(head=0.0, present=0.0, update=0.0)
ROUNDED = {**rows(update=0.0, rate=1e-12), HEAD.name: {"update_l2": steady(0.0, 6, every=10), "l2": steady(2.0, 6)}}
CONVERGED = {  # the gradient of the body is small by now, and that of the head was noise beside it before
    **rows(head=1e-9, update=0.0),
    BODY.gradient: {"l2": along([1.0] * 250 + [1e-4] * 80), "is_present": steady(1.0, STEPS)},
}
SHRUNKEN = {**CONVERGED, HEAD.gradient: {"l2": steady(1e-3, STEPS), "is_present": steady(1.0, STEPS)}}
TURNS = {
    **NEVER_SEEN,
    BODY.gradient: {"l2": steady(1.0, STEPS), "is_present": along([step % 9 != 3 for step in range(STEPS)])},
}
LATER = {**NEVER_SEEN, BODY.gradient: {"l2": steady(1.0, STEPS), "is_present": along([0.0] * 30 + [1.0] * 300)}}
AT_ONCE = {**NEVER_SEEN, BODY.gradient: {"l2": steady(1.0, STEPS), "is_present": along([0.0] * 3 + [1.0] * 327)}}
MOVED = {**along([11.3] * 20), 276: 11.4}
FLAT = rows(head=0.0, update=0.0)
FLAT_ALL = {**FLAT, BODY.gradient: FLAT[HEAD.gradient]}
OPENS = {**rows(), HEAD.gradient: {"l2": along([0.0] * 40 + [1e-3] * 290), "is_present": steady(1.0, STEPS)}}
ORPHAN = replace(HEAD, module="", **UNSEEN)
CORRECTED = (
    BODY,
    replace(
        HEAD,
        **DRAWN,
        optimizer="",
        name="Net_q.base.weight",
        module="q.base",
    ),
    replace(HEAD, name="Net_q.a.weight", module="q.a", shape=(4, 64)),
    replace(HEAD, name="Net_q.b.weight", module="q.b", shape=(10, 4)),
)
TIED = replace(HEAD, optimizer="", tied_to=BODY.name)
ALIKE = tuple(
    replace(
        HEAD,
        **DRAWN,
        optimizer="",
        name=f"Net_heads.{place}.weight",
    )
    for place in range(9)
)

CASES = [
    case("left out of the optimizer", BODY, replace(HEAD, **OUTSIDE), fires=(HEAD,)),
    case("no gradient reaches it", BODY, replace(HEAD, **UNSEEN), recorded=NEVER_SEEN, fires=(HEAD,)),
    case("its update is always zero", BODY, HEAD, recorded=rows(update=0.0), fires=(HEAD,)),
    case(
        "frozen at its random start",
        BODY,
        replace(
            HEAD,
            **DRAWN,
            optimizer="",
        ),
        fires=(HEAD,),
    ),
    case("of one size: in the order of the model, in every process", BODY, *ALIKE, fires=ALIKE),
    case("frozen since", BODY, replace(HEAD, **FROZEN), before=(BODY, HEAD), fires=(HEAD,)),
    case(
        "the largest first",
        replace(HEAD, **OUTSIDE),
        replace(HEAD, **OUTSIDE, name="Net_neck.weight", shape=(512, 512)),
        BODY,
        fires=(replace(HEAD, name="Net_neck.weight"), HEAD),
    ),
    case(
        "a whole model is in no optimizer",
        BODY,
        replace(HEAD, **OUTSIDE, name="Encoder_0.weight"),
        fires=(replace(HEAD, name="Encoder_0.weight"),),
    ),
    case(
        "a layer was replaced: the optimizer holds the old one, by the same name",
        BODY,
        replace(HEAD, **OUTSIDE),
        ORPHAN,
        recorded=NEVER_SEEN,
        fires=(HEAD, HEAD),
    ),
    case(
        "a part of a model was in an optimizer earlier, and is no more",
        BODY,
        replace(HEAD, **OUTSIDE),
        before=(BODY, HEAD),
        fires=(HEAD,),
    ),
    case(
        "a whole model was trained earlier in the same process",
        BODY,
        replace(HEAD, **OUTSIDE, name="Encoder_0.weight"),
        before=(BODY, replace(HEAD, name="Encoder_0.weight", module="Encoder.head")),
    ),
    case("an input is optimised", replace(BODY, module="", name="Parameters_0.weight"), replace(HEAD, **OUTSIDE)),
    case(
        "the first matrix is frozen in a run that ended early",
        replace(
            BODY,
            **DRAWN,
        ),
        HEAD,
        recorded=short(rows()),
        fires=(BODY,),
    ),
    case(
        "two are frozen in a run that ended early",
        BODY,
        replace(
            HEAD,
            **DRAWN,
        ),
        replace(HEAD, **DRAWN, name="Net_neck.weight", module="neck"),
        recorded=short(rows()),
        fires=(HEAD, replace(HEAD, name="Net_neck.weight")),
    ),
    case("a gradient of exactly zero", BODY, HEAD, recorded=FLAT, fires=(HEAD,)),
    case("the same, in a short run that has ended", BODY, HEAD, recorded=short(FLAT, steps=40), fires=(HEAD,)),
    case("a gradient of exactly zero at first", BODY, HEAD, recorded=FLAT, step=60),
    case("a gate that opens", BODY, HEAD, recorded=OPENS),
    case("all gradients are exactly zero", BODY, HEAD, recorded=FLAT_ALL),
    case("one of two matrices of a module", BODY, replace(HEAD, module="body"), recorded=FLAT),
    case("the bias before a normalisation", BODY, replace(HEAD, shape=(10,)), recorded=FLAT),
    case("all of it trains", BODY, HEAD),
    case(
        "frozen for the first steps",
        BODY,
        replace(
            HEAD,
            **DRAWN,
        ),
        step=99,
    ),
    case("no gradient for the first steps", BODY, replace(HEAD, **UNSEEN), recorded=NEVER_SEEN, step=99),
    case("frozen since, and an optimizer made for the rest", BODY, KEPT, before=(BODY, HEAD)),
    case("frozen since, beside a new optimizer of all", BY_ADAM, KEPT_BY_ADAM, optimizers=(ADAM,), before=(BODY, HEAD)),
    case("frozen not long ago", BODY, replace(HEAD, **FROZEN), before=(BODY, HEAD), step=99),
    case(
        "frozen in a run of 20 steps",
        replace(
            BODY,
            **DRAWN,
        ),
        HEAD,
        recorded=BRIEF,
    ),
    case(
        "a later matrix, in a run that ended",
        BODY,
        replace(
            HEAD,
            **DRAWN,
        ),
        recorded=EARLY,
    ),
    case("a later one without a gradient", BODY, replace(HEAD, **UNSEEN), recorded=short(NEVER_SEEN)),
    case("frozen at random, and corrected", *CORRECTED, recorded=rows()),
    case("another name of one that trains", BODY, TIED),
    case("frozen, and trained before", replace(BODY, **FROZEN, optimizer=""), HEAD),
    case("a layer that is not used in this step", BODY, HEAD, recorded=rows(present=0.5)),
    case("an average of the weights", BODY, replace(HEAD, **OUTSIDE, **UNSEEN, name="Average_head.weight")),
    case(
        "a teacher that the script updates by hand",
        BODY,
        replace(HEAD, **OUTSIDE, name="T_x.weight", observed={**HEAD.observed, HAS_CHANGED: True}),
    ),
    case("a rate of zero", BODY, HEAD, recorded=rows(update=0.0, rate=0.0)),
    case("rounding noise before a normalisation", BODY, HEAD, recorded=rows(head=1e-9, update=0.0)),
    case("the same, and the model has converged", BODY, HEAD, recorded=CONVERGED),
    case("no change, and the rest has converged", BODY, HEAD, recorded=SHRUNKEN, fires=(HEAD,)),
]


def sized(recorded: Mapping[str, Any], sizes: Mapping[int, float]) -> Mapping[str, Any]:
    """Statistics with the norms of the head besides."""
    return {**recorded, HEAD.name: {**recorded[HEAD.name], "l2": sizes}}


CUT_OFF = {**NEVER_SEEN, HEAD.gradient: {"l2": steady(1.0, 20), "is_present": along([1.0] * 20 + [0.0] * 310)}}
LONE = replace(HEAD, **UNSEEN)
BY_HAND = [
    case(
        "no gradient, and its values stay",
        BODY,
        replace(HEAD, **UNSEEN),
        recorded=sized(NEVER_SEEN, steady(11.3, 20, every=10)),
        fires=(HEAD,),
    ),
    case(
        "it moved while it had gradients",
        BODY,
        replace(HEAD, **UNSEEN),
        recorded=sized(CUT_OFF, {**along([11.2, 11.25], every=5), **steady(11.3, 20, every=10, start=30)}),
        fires=(HEAD,),
    ),
    case(
        "no update, and its values stay",
        BODY,
        HEAD,
        recorded=sized(rows(update=0.0), steady(11.3, 20, every=10)),
        fires=(HEAD,),
    ),
    case(
        "not measured for long, and it is over", BODY, LONE, recorded=sized(NEVER_SEEN, steady(9.0, 20)), fires=(HEAD,)
    ),
    replace(case("not measured for long", BODY, LONE, recorded=sized(NEVER_SEEN, steady(9.0, 20))), step=300),
    case("no gradient, and it moves", BODY, replace(HEAD, **UNSEEN), recorded=sized(NEVER_SEEN, MOVED)),
    case("no update of the optimizer's, and it moves", BODY, HEAD, recorded=sized(rows(update=0.0), MOVED)),
    case(
        "it moves after its last gradient",
        BODY,
        replace(HEAD, **UNSEEN),
        recorded=sized(CUT_OFF, {**along([11.2, 11.25], every=5), 30: 11.3, 90: 11.4}),
    ),
]

test_cases = every_case(ParametersNotTrained(), [*CASES, *BY_HAND])


@pytest.mark.parametrize(
    ("case", "causes"),
    [
        pytest.param(CASES[0], [Cause.PARAMETERS_NOT_IN_OPTIMIZER], id="outside"),
        pytest.param(CASES[2], [Cause.FROZEN_PARAMETERS], id="inside"),
        pytest.param(
            case("rounded away", BODY, HEAD, recorded=ROUNDED, fires=(HEAD,)),
            [Cause.LEARNING_RATE_TOO_LOW, Cause.FROZEN_PARAMETERS],
            id="a-rate-below-rounding",
        ),
        pytest.param(
            case(
                "both",
                BODY,
                replace(HEAD, **OUTSIDE),
                replace(
                    HEAD, name="Net_neck.weight", requires_grad=False, observed={**HEAD.observed, LOOKS_UNTRAINED: True}
                ),
                fires=(HEAD, replace(HEAD, name="Net_neck.weight")),
            ),
            [Cause.PARAMETERS_NOT_IN_OPTIMIZER, Cause.FROZEN_PARAMETERS],
            id="both",
        ),
    ],
)
def test_what_it_suspects(case: RuleCase, causes: list[Cause]) -> None:
    findings = assert_case(ParametersNotTrained(), case)
    assert [s.cause for s in ParametersNotTrained().suspicions(findings, case.window)] == causes


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(
            case(
                "most", replace(BODY, **OUTSIDE, observed={**BODY.observed, LOOKS_UNTRAINED: True}), HEAD, fires=(BODY,)
            ),
            Severity.CRITICAL,
            id="most-of-the-model",
        ),
        pytest.param(
            case(
                "some", BODY, replace(HEAD, **OUTSIDE, observed={**HEAD.observed, LOOKS_UNTRAINED: True}), fires=(HEAD,)
            ),
            Severity.WARNING,
            id="a-head",
        ),
        pytest.param(
            case("an expert", BODY, replace(HEAD, **UNSEEN), recorded=TURNS, fires=(HEAD,)),
            Severity.INFO,
            id="where-others-take-turns",
        ),
        pytest.param(
            case("the first of two tasks", LONE, BODY, recorded=LATER, fires=(HEAD,)),
            Severity.INFO,
            id="where-another-came-later",
        ),
        pytest.param(
            case("a layer", LONE, BODY, recorded=AT_ONCE, fires=(HEAD,)),
            Severity.WARNING,
            id="where-another-missed-the-first-steps",
        ),
        pytest.param(
            case("a backbone", replace(BODY, **OUTSIDE), HEAD, fires=(BODY,)), Severity.INFO, id="trained-before"
        ),
    ],
)
def test_how_bad_it_is(case: RuleCase, severity: Severity) -> None:
    assert ParametersNotTrained().severity_of(assert_case(ParametersNotTrained(), case)) is severity


def reached(*parts: tuple[str, tuple[int, ...], bool]) -> RuleCase:
    """A model of these parts in their order, each with its shape, and whether gradients reach it."""
    held = [
        replace(BODY, name=f"Net_{n}.weight", module=n, shape=shape, observed={**BODY.observed, HAS_GRADIENT: seen})
        for n, shape, seen in parts
    ]
    present = {p.gradient: {"is_present": steady(float(HAS_GRADIENT.of(p)), STEPS)} for p in held}
    left = sorted((p for p in held if not HAS_GRADIENT.of(p)), key=lambda p: -p.size)
    return case("", *held, recorded={RATE: {"mean": steady(0.1, STEPS)}, **present}, fires=tuple(left))


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(
            reached(
                ("words", (500, 32), True),
                ("body", (32, 32), True),
                ("pooler", (32, 32), False),
                ("head", (2, 32), True),
            ),
            Severity.INFO,
            id="a-pooler-is-small",
        ),
        pytest.param(
            reached(("body", (64, 64), True), ("head", (10, 64), True), ("decoder", (64, 10), False)),
            Severity.INFO,
            id="a-decoder-for-later",
        ),
        pytest.param(
            reached(
                ("body", (32, 64), True),
                ("head", (10, 32), True),
                ("decoder.0", (48, 32), False),
                ("decoder.2", (64, 48), False),
            ),
            Severity.INFO,
            id="a-decoder-of-two-layers-for-later",
        ),
        pytest.param(
            reached(
                ("body", (32, 64), True),
                ("block.0", (48, 32), False),
                ("block.2", (32, 48), False),
                ("head", (10, 32), True),
            ),
            Severity.WARNING,
            id="a-block-of-two-layers-is-forgotten",
        ),
        pytest.param(
            reached(
                ("body", (64, 64), True),
                ("first", (10, 64), True),
                ("second", (10, 64), False),
                ("third", (10, 64), False),
            ),
            Severity.INFO,
            id="heads-for-later-tasks",
        ),
        pytest.param(
            reached(
                ("body", (64, 64), True),
                ("head", (10, 64), True),
                ("projector.0", (64, 64), False),
                ("projector.2", (32, 64), False),
            ),
            Severity.INFO,
            id="a-projector-for-another-loss",
        ),
        pytest.param(
            reached(
                ("0.in", (48, 64), True),
                ("0.out", (10, 48), True),
                ("1.in", (48, 64), False),
                ("1.out", (10, 48), False),
                ("2.in", (48, 64), False),
                ("2.out", (10, 48), False),
            ),
            Severity.INFO,
            id="members-of-an-ensemble-for-later",
        ),
        pytest.param(
            reached(("first", (64, 64), False), ("second", (64, 64), False), ("head", (10, 64), True)),
            Severity.WARNING,
            id="detached-behind-the-second-layer",
        ),
        pytest.param(
            reached(("norm", (64,), False), ("body", (64, 64), True), ("head", (10, 64), True)),
            Severity.INFO,
            id="a-norm-before-the-first-layer",
        ),
        pytest.param(
            reached(("words", (4, 64), False), ("body", (64, 64), True), ("head", (10, 64), True)),
            Severity.WARNING,
            id="the-first-matrix-is-small",
        ),
        pytest.param(
            reached(("first", (64, 64), True), ("second", (64, 64), False), ("head", (10, 64), True)),
            Severity.WARNING,
            id="a-layer-is-forgotten",
        ),
        pytest.param(
            reached(
                ("words", (64, 32), True),
                ("images.a", (32, 48), False),
                ("images.b", (32, 32), False),
                ("head", (8, 32), True),
            ),
            Severity.WARNING,
            id="the-second-of-two-towers",
        ),
    ],
)
def test_parts_that_stand_aside_are_information(case: RuleCase, severity: Severity) -> None:
    assert ParametersNotTrained().severity_of(assert_case(ParametersNotTrained(), case)) is severity


def frozen_beside(*parts: tuple[str, tuple[int, ...], bool]) -> RuleCase:
    """A model of these parts in their order, each with its shape, and whether it is frozen as it was drawn."""
    drawn: dict[str, Any] = {**DRAWN, "optimizer": ""}
    held = [
        replace(BODY, name=f"Net_{n}.weight", module=n, shape=shape, **(drawn if is_frozen else {}))
        for n, shape, is_frozen in parts
    ]
    present = {p.gradient: {"is_present": steady(float(HAS_GRADIENT.of(p)), STEPS)} for p in held}
    left = sorted((p for p in held if not p.requires_grad), key=lambda p: -p.size)
    return case("", *held, recorded={RATE: {"mean": steady(0.1, STEPS)}, **present}, fires=tuple(left))


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(
            frozen_beside(
                ("net.0", (32, 10), False),
                ("net.2", (1, 32), False),
                ("prior.0", (32, 10), True),
                ("prior.2", (1, 32), True),
            ),
            Severity.INFO,
            id="a-random-prior",
        ),
        pytest.param(
            frozen_beside(
                ("a.0", (64, 64), False), ("a.2", (32, 64), False), ("b.0", (64, 64), True), ("b.2", (32, 64), True)
            ),
            Severity.INFO,
            id="a-random-target",
        ),
        pytest.param(
            frozen_beside(
                ("0.a", (96, 32), False), ("0.b", (32, 96), False), ("1.a", (96, 32), True), ("1.b", (32, 96), True)
            ),
            Severity.WARNING,
            id="a-block-behind-another",
        ),
        pytest.param(
            frozen_beside(("0", (64, 64), True), ("2", (64, 64), False), ("4", (10, 64), False)),
            Severity.WARNING,
            id="a-layer-behind-another",
        ),
        pytest.param(
            frozen_beside(
                ("net.0", (32, 10), True),
                ("net.2", (1, 32), False),
                ("prior.0", (32, 10), True),
                ("prior.2", (1, 32), True),
            ),
            Severity.WARNING,
            id="a-random-prior-and-a-forgotten-layer",
        ),
    ],
)
def test_frozen_twins_of_trained_parts_are_information(case: RuleCase, severity: Severity) -> None:
    assert ParametersNotTrained().severity_of(assert_case(ParametersNotTrained(), case)) is severity


@pytest.mark.parametrize(
    ("evaluations", "fires"),
    [
        pytest.param((40, 60), True, id="two-epochs"),
        pytest.param((60,), False, id="one-epoch"),
        pytest.param((), False, id="none"),
    ],
)
def test_what_is_frozen_may_have_its_turn_in_the_next_epoch(evaluations: tuple[int, ...], fires: bool) -> None:
    frozen = case(
        "",
        BODY,
        replace(
            HEAD,
            **DRAWN,
        ),
    )
    evaluated = {"CrossEntropyLoss_output_0": {"mean": {step: 1.0 for e in evaluations for step in (e, e + 1)}}}
    at = {step for e in evaluations for step in (e, e + 1)}
    recorded = {
        name: {of: {s: v for s, v in column.items() if s not in at} for of, column in statistics.items()}
        for name, statistics in frozen.recorded.items()
    }
    assert_case(
        ParametersNotTrained(),
        replace(frozen, recorded=recorded, evaluated=evaluated, step=120, fires=(HEAD.name,) if fires else ()),
    )


def test_after_some_layers_were_thawed_the_frozen_ones_are_information() -> None:
    neck = replace(BODY, name="Net_neck.weight", module="neck")
    thawed = case(
        "",
        BODY,
        neck,
        replace(
            HEAD,
            **DRAWN,
        ),
        before=(BODY, replace(neck, **FROZEN)),
        fires=(HEAD,),
    )
    assert ParametersNotTrained().severity_of(assert_case(ParametersNotTrained(), thawed)) is Severity.INFO


@pytest.mark.parametrize(
    ("last", "fires"),
    [pytest.param(229, False, id="just-thawed"), pytest.param(440, True, id="thawed-for-long")],
)
def test_measurements_from_before_the_thaw_say_nothing(last: int, fires: bool) -> None:
    """On a busy machine gradients are measured every 16 steps, so that the newest ten reach back beyond the thaw."""
    facts = ModelFacts(parameters=(BODY, replace(HEAD, **FROZEN)), optimizers=(SGD,), modules=MODULES)
    thawed = replace(facts, parameters=(BODY, replace(HEAD, **UNSEEN)), from_step=215)
    measured = range(0, last + 1, 16)
    recorded = {
        RATE: {"mean": steady(0.1, last + 1)},
        BODY.name: {"update_l2": dict.fromkeys(measured, 1e-2)},
        BODY.gradient: {"l2": dict.fromkeys(measured, 1.0), "is_present": dict.fromkeys(measured, 1.0)},
        HEAD.gradient: {"is_present": dict.fromkeys(measured, 0.0)},
    }
    names = (HEAD.name,) if fires else ()
    assert_case(ParametersNotTrained(), RuleCase("thawed", recorded=recorded, facts=(facts, thawed), fires=names))


def test_the_reasons_for_two_of_one_name_are_told_apart() -> None:
    replaced = next(case for case in CASES if case.name.startswith("a layer was replaced"))
    findings = assert_case(ParametersNotTrained(), replaced)
    assert [finding.measure for finding in findings] == [NO_OPTIMIZER, NO_MODULE]
    (suspicion,) = ParametersNotTrained().suspicions(findings, replaced.window)
    assert suspicion.cause is Cause.PARAMETERS_NOT_IN_OPTIMIZER
    assert "no module holds any more" in suspicion.because


def test_it_never_calls_frozen_what_requires_a_gradient() -> None:
    cut_off = next(case for case in CASES if case.name == "no gradient reaches it")
    (suspicion,) = ParametersNotTrained().suspicions(assert_case(ParametersNotTrained(), cut_off), cut_off.window)
    assert suspicion.because == "1 require a gradient that never reaches them"


def test_it_is_told_early_with_the_line() -> None:
    (finding,) = replay(ParametersNotTrained(), CASES[0].trial)
    assert (finding.step, finding.place) == (10, "model.py:8")


@pytest.mark.parametrize(
    ("case", "lacks"),
    [
        pytest.param(CASES[6], False, id="enough"),
        pytest.param(RuleCase("old", recorded=rows()), True, id="no-facts"),
        pytest.param(
            RuleCase("short", recorded={RATE: {"mean": along([0.1] * 5)}}, facts=ModelFacts()), True, id="too-short"
        ),
    ],
)
def test_what_it_lacks(case: RuleCase, lacks: bool) -> None:
    assert bool(ParametersNotTrained().lacks(case.window)) is lacks
    assert not lacks or list(ParametersNotTrained().check(case.window)) == []


@pytest.mark.parametrize(
    ("framework", "parameters", "fires"),
    [
        pytest.param("keras", (replace(BODY, **FROZEN, optimizer=""), KEPT), True, id="nothing-of-keras-trains"),
        pytest.param("keras", (BODY, KEPT), False, id="a-part-trains"),
        pytest.param("pytorch", (replace(BODY, **FROZEN, optimizer=""), KEPT), False, id="steps-of-the-script"),
    ],
)
def test_a_model_of_keras_of_which_nothing_trains(
    framework: str, parameters: tuple[ParameterFacts, ...], fires: bool
) -> None:
    facts = ModelFacts(parameters=parameters, modules=MODULES, program=ProgramFacts(framework=framework))
    names = tuple(each.name for each in parameters) if fires else ()
    recorded = {"loss_output_0": {"mean": steady(0.7, 40)}}
    findings = assert_case(ParametersNotTrained(), RuleCase("frozen", recorded=recorded, facts=(facts,), fires=names))
    assert not fires or ParametersNotTrained().severity_of(findings) is Severity.WARNING
