"""How the rules of a run stand: what needs a look comes first, what is fine is short."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.training_lib.local.verdicts import issue
from trackside.cli.terminal.views.rule_lines import rule_lines
from trackside.contracts.verdict import Severity
from trackside.runs.rule_state import RuleState, RuleStatus


def lines(*rules: RuleStatus, width: int = 80, color: bool = False) -> list[str]:
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
    )
    for line in rule_lines(console, rules):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def status(name: str, state: RuleState, detail: str = "because") -> RuleStatus:
    return RuleStatus(name, name, state, detail, judged=5, judged_through=40)


def test_what_needs_a_look_comes_first() -> None:
    found = lines(*[status(state.value.replace(" ", "-").lower(), state) for state in reversed(RuleState)])
    assert [line.split("  ")[0] for line in found] == [
        "▲ Issue", "⚠ Error", "✔ Recovered", "◌ Not enough data", "▶ Running", "✔ OK", "– Not applicable",
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "expected"), [pytest.param(4, 4, id="few"), pytest.param(5, 1, id="many-share-one")])
def test_rules_that_are_fine(count: int, expected: int) -> None:
    found = lines(*[status(f"r{k}", RuleState.OK) for k in range(count)])
    assert len(found) == expected
    assert all(f"r{k}" in " ".join(found) for k in range(count))


def test_a_rule_that_does_not_apply_stands_after_those_that_are_fine() -> None:
    rules = [status(f"r{k}", RuleState.OK) for k in range(9)]
    found = lines(status("dead-relu", RuleState.NOT_APPLICABLE, "no module of the model is a ReLU."), *rules)
    assert found[0].startswith("✔ OK              9 rules")
    assert found[-1] == "– Not applicable  dead-relu  no module of the model is a ReLU."


def test_only_the_state_is_coloured() -> None:
    (line,) = lines(status("overfit", RuleState.OK), color=True)
    assert line == "\x1b[32m✔ OK  \x1b[0moverfit  because"


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    found = lines(
        status("poor-weight-initialization", RuleState.NOT_ENOUGH_DATA, "it needs " + "words " * 40), width=width
    )
    assert max(map(len, found)) <= width


@pytest.mark.parametrize(
    ("severity", "symbol"),
    [
        pytest.param(Severity.CRITICAL, "✖", id="critical"),
        pytest.param(Severity.WARNING, "▲", id="warning"),
        pytest.param(Severity.INFO, "●", id="info"),
    ],
)
def test_a_severity_has_the_symbol_of_its_card(severity: Severity, symbol: str) -> None:
    rule = replace(status("overfit", RuleState.ISSUE), verdict=issue("overfit", severity=severity))
    assert lines(rule)[0].startswith(f"{symbol} Issue")


def test_many_rules_with_one_reason_share_a_line() -> None:
    rules = [status(f"r{k}", RuleState.NOT_ENOUGH_DATA, "nothing was saved.") for k in range(23)]
    assert lines(*rules) == ["◌ Not enough data  23 rules  nothing was saved."]
