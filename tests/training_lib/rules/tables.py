"""Tables of cases as one test: every rule names what it must, and is silent at least as often as it fires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.for_each import for_each
from trackside.rules.rule import Rule
from trackside.testing.rule_case import RuleCase, assert_case


@dataclass(frozen=True)
class Row(RuleCase):
    """A case, and the rule that judges it if it is another than the table's."""

    rule: Rule | None = None


def every_case(rule: Rule, cases: Sequence[RuleCase]) -> Callable[[], None]:
    """Return one test of all cases.

    Args:
        rule: The rule that judges the cases that bring none.
        cases: The table.
    """

    @for_each({f"{number}: {case.name}": (case,) for number, case in enumerate(cases)})
    def judge(case: RuleCase) -> None:
        assert_case(getattr(case, "rule", None) or rule, case)

    def test_cases() -> None:
        firing = sum(bool(case.fires) for case in cases)
        assert len(cases) >= 2 * firing, (
            f"{firing} of {len(cases)} cases fire: add silent ones, which show what is right"
        )
        judge()

    return test_cases
