"""label-mask: labels on padding, on no end, on no token, one token ahead; silent on the whole text."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.observations import GIVEN_TARGETS, PADDED_TARGETS
from trackside.contracts.run.recorded_names import (
    DOUBLE_BEGINS,
    LABELLED_ENDS,
    LABELLED_PADDING,
    LABELLED_PROMPTS,
    LABELLED_TOKENS,
    ROWS_CUT,
    TARGET_PLACES,
    UNLABELLED_ROWS,
)
from trackside.language.rules.label_mask import LabelMask
from trackside.testing.rule_case import RuleCase, assert_case

SHORT = {
    "tokens": LABELLED_TOKENS,
    "padding": LABELLED_PADDING,
    "ends": LABELLED_ENDS,
    "places": TARGET_PLACES,
    "begins": DOUBLE_BEGINS,
    "prompts": LABELLED_PROMPTS,
    "rows": UNLABELLED_ROWS,
    "cut": ROWS_CUT,
}


def case(name: str, *fires: str, looks: int = 20, **shares: float) -> RuleCase:
    """A run with the same shares at each look."""
    recorded = {SHORT[key]: {"mean": steady(share, looks)} for key, share in shares.items()}
    return RuleCase(name, recorded=recorded, fires=fires)


def counted(name: str, share: float, *fires: str) -> RuleCase:
    """A run of another model, of whose targets a share is of padding."""
    facts = ModelFacts(program=ProgramFacts(observed={PADDED_TARGETS: share}))
    return RuleCase(name, recorded={"Loss_output_0": {"mean": steady(1)}}, facts=facts, fires=fires)


def given(name: str, looks: int, *fires: str) -> RuleCase:
    """A run of a model whose decoder reads its targets."""
    facts = ModelFacts(program=ProgramFacts(observed={GIVEN_TARGETS: looks}))
    return RuleCase(name, recorded={"Loss_output_0": {"mean": steady(1)}}, facts=facts, fires=fires)


CASES = [
    given("a decoder reads its targets", 3, TARGET_PLACES),
    given("a decoder reads the tokens before them", 0),
    counted("half of the targets are padding", 0.5, LABELLED_PADDING),
    counted("a tenth of the targets is padding", 0.1),
    case("no token", LABELLED_TOKENS, tokens=0.0, ends=0.0),
    case("padding", LABELLED_PADDING, tokens=0.4, padding=1.0, ends=1.0),
    case("padding, and no end is known", LABELLED_PADDING, tokens=1.0, padding=1.0),
    case("no end, prompts masked", LABELLED_ENDS, tokens=0.5, ends=0.0),
    case("no end, rows padded", LABELLED_ENDS, tokens=1.0, padding=0.0, ends=0.0),
    case("shifted twice", TARGET_PLACES, tokens=0.9, padding=0.0, ends=1.0, places=2.0),
    case("not shifted, by a loop without labels", TARGET_PLACES, places=0.0),
    case("two begins", DOUBLE_BEGINS, tokens=0.5, ends=1.0, begins=1.0),
    case(
        "most rows without a label", UNLABELLED_ROWS, tokens=0.1, padding=0.0, ends=0.2, rows=0.7, prompts=0.0, cut=0.7
    ),
    case("most answers cut off", ROWS_CUT, tokens=0.5, padding=0.0, ends=0.2, rows=0.1, prompts=0.0, cut=0.8),
    case("some answers cut off", tokens=0.5, padding=0.0, ends=0.6, rows=0.05, prompts=0.0, cut=0.4),
    case("whole texts cut off", tokens=1.0, padding=0.0, ends=0.2, rows=0.0, prompts=1.0, cut=0.8),
    case("a few rows without a label", tokens=0.5, padding=0.0, ends=0.9, rows=0.1, prompts=0.0, cut=0.1),
    case("prompts masked", tokens=0.4, padding=0.0, ends=1.0, places=1.0, begins=0.0),
    case("the whole text on purpose", tokens=1.0, padding=0.0, ends=1.0),
    case("blocks of a stream of text without ends", tokens=1.0, ends=0.0),
    case("most rows cut off, some end", tokens=0.5, padding=0.0, ends=0.1),
    case("one label of padding as the end", tokens=0.5, padding=0.1, ends=1.0),
    case("targets at no place", tokens=0.5, ends=1.0, places=-1.0),
    case("the end is unknown", tokens=0.5, padding=0.0),
    case("too few looks", looks=3, tokens=0.0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(LabelMask(), case)
    assert not findings or LabelMask().sentence(findings)
