"""incomplete-checkpoint: checkpoints without parameters that train or with other values; loads without an effect."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.observations import CHECKPOINTS, IDLE_LOAD, CheckpointFacts, LoadFacts
from trackside.contracts.verdict import Severity
from trackside.rules.program.incomplete_checkpoint import IncompleteCheckpoint
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = "CrossEntropyLoss_output_0"
STEM, HEAD = "Net_stem.weight", "Net_head.weight"


def case(name: str, *contents: tuple[int, CheckpointFacts | None], fires: tuple[str, ...] = ()) -> RuleCase:
    facts = tuple(
        ModelFacts(from_step=step, program=ProgramFacts(observed={CHECKPOINTS: found})) for step, found in contents
    )
    return RuleCase(name, recorded={LOSS: {"mean": steady(1.0, 60)}}, fires=fires, facts=facts)


def load(name: str, *loads: LoadFacts | None, fires: tuple[str, ...] = ()) -> RuleCase:
    facts = tuple(
        ModelFacts(20 * place, program=ProgramFacts(observed={IDLE_LOAD: each})) for place, each in enumerate(loads)
    )
    return RuleCase(name, recorded={LOSS: {"mean": steady(1.0, 60)}}, fires=fires, facts=facts)


FILTERED = CheckpointFacts("last.pt", 12, missing=(STEM,), missing_count=3)
ENCODER = CheckpointFacts("encoder.pt", 12, missing=(HEAD,), missing_count=1, ends_early=True)
CHANGED = CheckpointFacts("last.pt", 12, altered=(HEAD,), altered_count=1)
WHOLE = CheckpointFacts("", 12)

CASES = [
    case("a filter", (0, None), (30, FILTERED), fires=(STEM,)),
    case("the head left out", (30, ENCODER), fires=(HEAD,)),
    case("other values", (0, None), (30, CHANGED), fires=(HEAD,)),
    case("whole", (30, WHOLE)),
    case("the rest is saved later", (30, FILTERED), (40, WHOLE)),
    case("none was written", (0, None)),
    load("other names", LoadFacts("module.stem.weight", 6), fires=("module.stem.weight",)),
    load("a state that is no copy", None, LoadFacts(STEM, 6, is_own=True), fires=(STEM,)),
    load("the right names at the second try", LoadFacts("module.stem.weight", 6), None),
    load("no load without an effect", None, None),
]

test_cases = every_case(IncompleteCheckpoint(), CASES)


@pytest.mark.parametrize(
    ("content", "severity", "words"),
    [
        pytest.param(FILTERED, Severity.WARNING, "Net_stem.weight and 2 more, of 12 trained parameters", id="filter"),
        pytest.param(ENCODER, Severity.INFO, "are in no checkpoint; the first is encoder.pt", id="encoder"),
        pytest.param(CHANGED, Severity.WARNING, "last.pt holds other values of Net_head.weight than", id="changed"),
    ],
)
def test_severity_and_message(content: CheckpointFacts, severity: Severity, words: str) -> None:
    rule = IncompleteCheckpoint()
    findings = assert_case(rule, case("", (0, content), fires=(*content.missing, *content.altered)))
    assert rule.severity_of(findings) is severity
    assert words in rule.sentence(findings)
