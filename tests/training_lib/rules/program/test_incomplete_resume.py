"""incomplete-resume: a process goes on with the weights of an earlier one, and without the rest of its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.training_lib.rules.columns import along
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts, ProgramFacts
from trackside.contracts.observations import STATE, STATE_LOST_EVERY
from trackside.contracts.run.recorded_names import BATCH, BATCH_NUMBER, EPOCH
from trackside.contracts.verdict import Severity
from trackside.rules.program.incomplete_resume import IncompleteResume
from trackside.testing.rule_case import RuleCase, assert_case

BEGAN, END = 50, 80
LOSS, WEIGHT, RATE = "CrossEntropyLoss_output_0", "Net_fc.weight", "hyperparameters/Adam/group_0/lr"
WARM = [min(1.0, (step + 1) / 20) for step in range(BEGAN)]
GROWS = [1.0 + 0.02 * step for step in range(END)]


def emptied(every: int, *, kind: str = "Adam") -> ModelFacts:
    """Return the facts of one process with an optimizer whose state is emptied every so many steps."""
    return ModelFacts(optimizers=(OptimizerFacts("Adam", kind, observed={STATE: "new", STATE_LOST_EVERY: every}),))


def facts(now: str, *, before: str = "new", kind: str = "Adam", resumed_at: int = BEGAN) -> tuple[ModelFacts, ...]:
    """Return the facts of two processes, with the state of the optimizer in each."""
    return (
        ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam", observed={STATE: before}),)),
        ModelFacts(
            from_step=BEGAN,
            optimizers=(OptimizerFacts("Adam", kind, line="train.py:9", observed={STATE: now}),),
            program=ProgramFacts(resumed_at=resumed_at),
        ),
    )


def case(
    name: str,
    of: ModelFacts | tuple[ModelFacts, ...],
    *,
    norms: Sequence[float] = GROWS,
    rates: Sequence[float] = (),
    fires: tuple[str, ...] = (),
    batches: Mapping[str, Sequence[float]] | None = None,
    step: int | None = None,
    losses: Sequence[float] = (2.0,) * END,
) -> RuleCase:
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {
        LOSS: {"mean": along(losses)},
        WEIGHT: {"l2": along(norms)},
    }
    for key, values in {RATE: rates, **(batches or {})}.items():
        if values:
            recorded[key] = {"mean": along(values)}
    return RuleCase(name, recorded=recorded, facts=of, fires=fires, step=step)


def batches(order: Sequence[float], *, first_pass: int) -> dict[str, list[float]]:
    """Return fingerprints, numbers and passes of the batches of both processes; each began with its first batch."""
    numbers = [k % first_pass for k in range(BEGAN)] + [k % first_pass for k in range(END - BEGAN)]
    epochs = [k // first_pass for k in range(BEGAN)] + [k // first_pass for k in range(END - BEGAN)]
    return {BATCH: list(order), BATCH_NUMBER: [float(n) for n in numbers], EPOCH: [float(n) for n in epochs]}


AGAIN = [float(k % 30) for k in range(BEGAN)] + [float(k) for k in range(END - BEGAN)]
OTHERS = [float(k) for k in range(END)]
ANEW = [*GROWS[:BEGAN], *GROWS[: END - BEGAN]]
RESTARTED = [*WARM, *WARM[: END - BEGAN]]

FELL = [4.0 * 0.98**step for step in range(END)]
MEASURED_EARLY = [GROWS[min(step, 20)] for step in range(BEGAN)] + GROWS[BEGAN:]  # thinned out to keep within a budget
LOST = case("the state is lost", facts("new"), fires=("Adam",))
CASES = [
    LOST,
    case("it is lost after a good resume", facts("new", before="loaded"), fires=("Adam",)),
    case(
        "the checkpoint was older than the last step",
        facts("new"),
        norms=[*GROWS[:BEGAN], *GROWS[35 : 35 + END - BEGAN]],
        fires=("Adam",),
    ),
    case("state and schedule are lost", facts("new"), rates=RESTARTED, fires=("Adam", RATE)),
    case("the schedule begins again", facts("loaded"), rates=RESTARTED, fires=(RATE,)),
    case("the data begin again", facts("loaded"), batches=batches(AGAIN, first_pass=30), fires=(BATCH,)),
    case("norms are old, and the loss goes on", facts("new"), norms=MEASURED_EARLY, losses=FELL, fires=("Adam",)),
    case("norms and losses begin anew", facts("new"), norms=ANEW, losses=[*FELL[:BEGAN], *FELL[: END - BEGAN]]),
    case(
        "the loss has not fallen, and the model begins anew", facts("new"), norms=ANEW, losses=[4.0, 3.9] * (END // 2)
    ),
    case("emptied every tenth step", emptied(10), fires=("Adam",)),
    case("emptied every fortieth step", emptied(40), fires=("Adam",)),
    case("emptied at each phase", emptied(100)),
    case("never emptied", emptied(0)),
    case("all is loaded", facts("loaded"), rates=[*WARM, *[1.0] * 30], batches=batches(OTHERS, first_pass=30)),
    case("no process has gone on", facts("new", resumed_at=0)),
    case("before the process went on", facts("new"), step=BEGAN - 1),
    case("training begins anew", facts("new"), norms=ANEW),
    case("the weights have hardly moved: a checkpoint or the first ones", facts("new"), norms=[1.0 + 1e-7] * END),
    case("another optimizer", facts("new", kind="SGD")),
    case("an optimizer without a state", facts("", before="")),
    case("a state that is there from the beginning", facts("loaded", before="loaded")),
    case("a constant rate", facts("loaded"), rates=[1.0] * END),
    case("a rate that falls on", facts("loaded"), rates=[0.99**k for k in range(END)]),
    case("another warm-up", facts("loaded"), rates=[*WARM, *[0.5 * r for r in WARM[: END - BEGAN]]]),
    case("the data begin again after a whole pass", facts("loaded"), batches=batches(AGAIN, first_pass=25)),
    case("a first pass without an end", facts("loaded"), batches=batches(AGAIN, first_pass=1000)),
]

test_cases = every_case(IncompleteResume(), CASES)


@pytest.mark.parametrize(
    ("name", "severity", "text"),
    [
        pytest.param("the state is lost", Severity.WARNING, "began without the state of Adam", id="state"),
        pytest.param("the schedule begins again", Severity.INFO, "learning rates of the run's first steps", id="rate"),
        pytest.param("the data begin again", Severity.INFO, "batches of the run's first steps", id="data"),
    ],
)
def test_its_words(name: str, severity: Severity, text: str) -> None:
    rule, chosen = IncompleteResume(), next(case for case in CASES if case.name == name)
    findings = assert_case(rule, chosen)
    assert rule.severity_of(findings) is severity
    assert text in rule.sentence(findings)
    assert f"at step {BEGAN} " in rule.sentence(findings)
    assert [suspicion.cause for suspicion in rule.suspicions(findings, chosen.window)] == [Cause.INCOMPLETE_RESUME]


def test_it_names_the_line_of_the_optimizer_and_the_step() -> None:
    (finding,) = assert_case(IncompleteResume(), LOST)
    assert (finding.place, finding.since_step) == ("train.py:9", BEGAN)


def test_a_run_of_one_process_has_nothing_to_judge() -> None:
    first, second = facts("new")
    assert IncompleteResume().nothing_to_judge(first)
    assert IncompleteResume().nothing_to_judge(second) == ""


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_broken_weights_are_no_resume(broken: float) -> None:
    assert_case(IncompleteResume(), case("broken", facts("new"), norms=[*GROWS[:BEGAN], *[broken] * (END - BEGAN)]))
