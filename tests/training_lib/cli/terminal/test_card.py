from __future__ import annotations

import io
import math

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.training_lib.local.verdicts import finding, issue, no_issue
from trackside.cli.terminal.card import VerdictCard, module_of
from trackside.contracts.verdict import Severity, Verdict

# A rule of somebody's own, so that the words of the built-in ones do not matter here.
OWN = "my-rule"


def drawn(verdict: Verdict, *, width: int = 80, encoding: str = "utf-8", color: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(
        file=file,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        markup=False,
        emoji=False,
    )
    console.print(VerdictCard(verdict))
    file.flush()
    return raw.getvalue().decode(encoding)


def test_the_whole_card_at_80_columns() -> None:
    verdict = issue(OWN, findings=(finding(), finding("gradient/MLP_layers.1.weight", since_step=6)), affected=12)
    assert drawn(verdict).split("\n") == [
        "✖ CRITICAL  my-rule " + "─" * 60,
        "12 of 22 gradients are too small to move the weights.",
        "tensor     gradient/MLP_layers.0.weight",
        "where      layers.0 of MLP, worker_0",
        "since      step 4 (found at step 20)",
        "affected   12 tensors; also gradient/MLP_layers.1.weight, 10 more",
        "observed   mean |gradient| 3.1e-12 < 1e-07",
        "evidence   ██▇▆▅▄▃▂▁▁  0.01 → 1e-11, steps 0 to 18, log scale",
        "what to do",
        "  1. Replace sigmoid by ReLU.",
        "  2. Normalise between layers.",
        "─" * 80,
        "",
    ]


@pytest.mark.parametrize("width", [80, 60, 49, 30, 20])
def test_no_line_is_wider_than_the_terminal_and_none_ends_in_blanks(width: int) -> None:
    verdict = issue(
        OWN, findings=tuple(finding(f"gradient/Model_{'deep.' * 20}{n}.weight") for n in range(5)), affected=40
    )
    lines = drawn(verdict, width=width).split("\n")
    assert max(cell_len(line) for line in lines) <= width
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("severity", "word", "symbol", "ascii_symbol"),
    [
        pytest.param(Severity.CRITICAL, "CRITICAL", "✖", "X", id="critical"),
        pytest.param(Severity.WARNING, "WARNING", "▲", "!", id="warning"),
        pytest.param(Severity.INFO, "INFO", "●", "i", id="info"),
    ],
)
def test_severity_is_a_word_and_a_symbol_not_only_a_colour(
    severity: Severity, word: str, symbol: str, ascii_symbol: str
) -> None:
    verdict = issue(OWN, severity=severity)
    assert drawn(verdict).startswith(f"{symbol} {word}  {OWN} ")
    assert drawn(verdict, encoding="ascii").startswith(f"{ascii_symbol} {word}  {OWN} ")
    assert "\x1b[" in drawn(verdict, color=True)
    assert "\x1b" not in drawn(verdict)


def test_where_the_encoding_is_ascii_the_card_is_too() -> None:
    card = drawn(issue(OWN, message="größe → ∞"), encoding="ascii")
    assert card.isascii()
    assert "->" in card


def test_names_from_outside_are_shown_not_obeyed() -> None:
    verdict = issue(
        "[red]rule[/red]\x1b[2J",
        findings=(finding("x\x1b]0;owned\x07[bold]\u202e.weight"),),
        message="a\x1b[31m",
        what_to_do=("rm\r-rf",),
    )
    card = drawn(verdict)
    assert not set(card) & {"\x1b", "\x07", "\r", "\u202e"}
    for shown in ("[red]rule[/red]\\x1b[2J", "[bold]\\u202e", "a\\x1b[31m", "rm\\r-rf"):
        assert shown in card


def test_a_verdict_that_names_no_tensor_still_makes_a_card() -> None:
    card = drawn(issue(OWN, findings=(), what_to_do=()))
    assert "step       20" in card
    assert "what to do" not in card


def test_values_that_are_no_numbers_are_drawn() -> None:
    card = drawn(issue(OWN, findings=(finding(observed=math.nan, series=((0, 1.0), (1, math.inf), (2, math.nan))),)))
    assert "observed   mean |gradient| nan < 1e-07" in card
    assert "evidence   ▅█×  1 → nan, steps 0 to 2" in card


def test_one_tensor_alone_has_no_row_about_others() -> None:
    assert "affected" not in drawn(issue(OWN))
    assert "evidence" not in drawn(issue(OWN, findings=(finding(series=((20, 1.0),)),)))


def test_the_same_tensor_of_another_worker_is_told_apart() -> None:
    card = drawn(issue(OWN, findings=(finding("a.weight"), finding("a.weight", worker="worker_1"))))
    assert "affected   2 tensors; also a.weight (worker_1)" in card


def test_a_built_in_rule_says_what_it_finds_and_leaves_the_rest_to_the_rows() -> None:
    card = drawn(issue("vanishing-gradient", message="a sentence that repeats every number below"))
    assert "Gradients have become too small to move the weights." in card
    assert "a sentence that repeats" not in card


def test_no_outcome_but_an_issue_is_drawn_by_accident() -> None:
    assert no_issue().lead is None


@pytest.mark.parametrize(
    ("subject", "module"),
    [
        pytest.param("gradient/MLP_layers.0.weight", "layers.0 of MLP", id="gradient"),
        pytest.param("MLP_layers.0.weight", "layers.0 of MLP", id="weight"),
        pytest.param("My_Net_fc.weight", "My_Net_fc", id="two-readings-so-none"),
        pytest.param("Net_fc_1.weight", "Net_fc_1", id="underscore-in-the-path"),
        pytest.param("CrossEntropyLoss_output_0", "CrossEntropyLoss", id="loss"),
        pytest.param("weight", "", id="no-module"),
        pytest.param("", "", id="empty"),
    ],
)
def test_where_a_tensor_belongs(subject: str, module: str) -> None:
    assert module_of(subject) == module
