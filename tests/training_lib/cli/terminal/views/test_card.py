from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.training_lib.local.verdicts import finding, issue, no_issue
from trackside.cli.terminal.views.card import VerdictCard, module_of, suspicions_of
from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.contracts.issue_group import IssueGroup, group_of_one, issue_groups
from trackside.contracts.verdict import Severity, State, Verdict
from trackside.runs.what_to_do import steps_to_try

# A rule of somebody's own, so that the words of the built-in ones do not matter here.
OWN = "my-rule"


def drawn(
    shown: Verdict | IssueGroup,
    *,
    width: int = 80,
    encoding: str = "utf-8",
    color: bool = False,
) -> str:
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
    console.print(VerdictCard(shown if isinstance(shown, IssueGroup) else group_of_one(shown)))
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
        "observed   mean |gradient|: 3.1e-12, below the limit of 1e-07",
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
    assert "observed   mean |gradient|: nan, below the limit of 1e-07" in card
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


LEARNING_RATE, LOSS_SIGN, DEAD, DATA = (
    Suspicion(Cause.LEARNING_RATE_TOO_HIGH, "a step changes weights by 31 % (median)"),
    Suspicion(Cause.LOSS_SIGN),
    Suspicion(Cause.DEAD_UNITS, "half of them"),
    Suspicion(Cause.NON_FINITE_DATA),
)


def suspecting(*suspicions: Suspicion, place: str = "") -> Verdict:
    return replace(issue(OWN, findings=(replace(finding(), place=place),)), suspicions=suspicions)


def test_likely_causes_and_the_line_at_80_columns() -> None:
    assert drawn(suspecting(LEARNING_RATE, LOSS_SIGN, place="train.py:41")).split("\n") == [
        "✖ CRITICAL  my-rule " + "─" * 60,
        "12 of 22 gradients are too small to move the weights.",
        "tensor     gradient/MLP_layers.0.weight",
        "where      layers.0 of MLP, worker_0",
        "line       train.py:41",
        "since      step 4 (found at step 20)",
        "observed   mean |gradient|: 3.1e-12, below the limit of 1e-07",
        "evidence   ██▇▆▅▄▃▂▁▁  0.01 → 1e-11, steps 0 to 18, log scale",
        "likely     1. the learning rate is too high: a step changes weights by 31 %",
        "           (median)",
        f"           2. {LOSS_SIGN.explanation.what}",
        "what to do",
        f"  1. {LEARNING_RATE.explanation.fix}",
        f"  2. {LOSS_SIGN.explanation.fix}",
        "  3. Replace sigmoid by ReLU.",
        "  4. Normalise between layers.",
        "─" * 80,
        "",
    ]


@pytest.mark.parametrize(
    ("suspicions", "shown", "fixes"),
    [
        pytest.param((), 0, 2, id="none"),
        pytest.param((LEARNING_RATE,), 1, 3, id="one"),
        pytest.param((LEARNING_RATE, LEARNING_RATE), 2, 3, id="one-fix-once"),
        pytest.param((LEARNING_RATE, LOSS_SIGN, DEAD, DATA), 3, 4, id="no-more-than-three-and-four"),
    ],
)
def test_only_the_likeliest_are_named(suspicions: tuple[Suspicion, ...], shown: int, fixes: int) -> None:
    verdict = suspecting(*suspicions)
    assert len(suspicions_of(verdict.suspicions)) == shown
    assert len(steps_to_try(verdict, verdict.suspicions)) == fixes
    assert ("likely" in drawn(verdict)) is bool(shown)


@pytest.mark.parametrize("width", [80, 60, 49, 30, 20])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_reasons_fit_any_terminal(width: int, encoding: str) -> None:
    long = Suspicion(Cause.EXPLODING_GRADIENTS, "größer, " * 30 + "\x1b[2J")
    card = drawn(suspecting(long, DEAD, place="/a/very/long/path/" * 6 + "train.py:41"), width=width, encoding=encoding)
    assert max(cell_len(line) for line in card.split("\n")) <= width
    assert "\x1b" not in card


def test_a_line_that_is_not_known_has_no_row() -> None:
    assert "\nline " not in drawn(suspecting(LEARNING_RATE))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        pytest.param(
            "The loss has jumped: loss (mean |gradient|: 3.1e-12, below the limit of 1e-07 at step 20) since step 4.",
            "The loss has jumped.",
            id="what-the-rows-say-is-not-said-twice",
        ),
        pytest.param("The custom rule Large fired: loss: too large.", "The custom rule Large fired: loss: too large.",
                     id="its-own-words"),
        pytest.param("Odd.", "Odd.", id="a-sentence"),
    ],
)  # fmt: skip
def test_what_a_rule_of_ones_own_found(message: str, said: str) -> None:
    lines = drawn(issue("Mine", findings=(finding("loss"),), message=message)).split("\n")
    assert lines[1] == said


SYMPTOM = replace(issue("dead-relu", severity=Severity.WARNING), group="digits/my-rule/issue-found", step=30)
BACK = replace(no_issue("dead-relu"), state=State.RECOVERED, group=SYMPTOM.group, step=60)
LEAD_BACK = replace(no_issue(OWN), state=State.RECOVERED, group=SYMPTOM.group, step=80)


@pytest.mark.parametrize(
    ("verdicts", "lines"),
    [
        pytest.param(
            (issue(OWN), SYMPTOM),
            ["also found dead-relu: gradient/MLP_layers.0.weight, since step 4 (warning)"],
            id="a-symptom",
        ),
        pytest.param(
            (issue(OWN), SYMPTOM, BACK),
            ["dead-relu: gradient/MLP_layers.0.weight, since step 4 (warning, recovered by step 60)"],
            id="gone",
        ),
        pytest.param(
            (issue(OWN), replace(SYMPTOM, findings=(finding("layer.7"),), affected=3)),
            ["also found dead-relu: layer.7 and 2 more, since step 4 (warning)"],
            id="the-layer-of-a-symptom",
        ),
        pytest.param(
            (issue(OWN), SYMPTOM, BACK, LEAD_BACK), ["✔ RECOVERED  my-rule", "recovered  by step 80"], id="all"
        ),
        pytest.param((replace(issue(OWN), harm="the loss is nan"),), ["harm       the loss is nan"], id="harm"),
        pytest.param(
            (replace(issue(OWN), signs=(Sign("loss-fell"),)),),
            ["cause      unknown: no evidence of this run supports one well enough"],
            id="cause-unknown",
        ),
        pytest.param(
            (replace(issue(OWN), probability=0.97),),
            ["✖ CRITICAL  my-rule ─", "real       almost certain (97%), whatever its cause"],
            id="probability",
        ),
        pytest.param(
            (suspecting(replace(DEAD, probability=0.62)),),
            [f"likely     1. {DEAD.explanation.what}: half of them (62%)"[:60]],
            id="a-cause",
        ),
    ],
)
def test_one_card_for_one_problem(verdicts: tuple[Verdict, ...], lines: list[str]) -> None:
    (group,) = issue_groups(verdicts)
    card = drawn(group, width=120)
    for line in lines:
        assert line in card
    assert ("what to do" in card) is bool(group.standing)


def test_a_number_that_the_run_records_of_itself_is_not_named() -> None:
    card = drawn(issue(OWN, findings=(finding("trackside/gradients_kept"),)))
    assert "trackside/" not in card
    assert "since      step 4" in card
