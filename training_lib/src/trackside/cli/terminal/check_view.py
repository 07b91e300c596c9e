"""The answers of a rehearsal: a line for each probe, then a card for each fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from trackside.cli.terminal.card import LABEL_COLUMNS, VerdictCard
from trackside.cli.terminal.console import safe
from trackside.cli.terminal.layout import beside, columns, wrapped
from trackside.contracts.check import Answer, Outcome
from trackside.contracts.issue_group import issue_groups
from trackside.local.check import CheckResult
from trackside.local.source_text import SourceText

_LOOKS = {
    Outcome.FAULT: ("✖", "X", "bold red"),
    Outcome.NOT_TRIED: ("◌", "?", "yellow"),
    Outcome.OK: ("✔", "+", "green"),
    Outcome.DOES_NOT_APPLY: ("–", "-", "dim"),
}


def answer_lines(console: Console, answers: Sequence[Answer]) -> Iterator[Text]:
    """Yield a line for each answer, in the order of the probes."""
    rows = []
    for answer in answers:
        symbol, ascii_symbol, style = _LOOKS[answer.outcome]
        mark = f"{ascii_symbol if console.options.ascii_only else symbol} {answer.outcome.value}"
        detail = answer.what if answer.outcome is Outcome.FAULT else answer.observed
        rows.append([Text(mark, style=style), Text(safe(console, answer.probe)), Text(safe(console, detail))])
    return columns(console, rows)


def fault_card(console: Console, answer: Answer) -> Iterator[Text]:
    """Yield the lines of a fault's card: what, where, the observation, and what to do."""
    symbol, ascii_symbol, style = _LOOKS[Outcome.FAULT]
    is_ascii, width = console.options.ascii_only, console.width
    line = "-" if is_ascii else "─"
    title = Text(f"{ascii_symbol if is_ascii else symbol} FAULT  {safe(console, answer.probe)}", style=style)
    yield title + Text(f" {line * max(0, width - title.cell_len - 1)}".rstrip(), style=style)
    yield from wrapped(console, Text(safe(console, answer.what)), width)
    for label, text in (("where", answer.where), ("observed", answer.observed)):
        if text:
            yield from beside(
                console, Text(label, style="bold"), Text(safe(console, text)), indent=LABEL_COLUMNS, width=width
            )
    if answer.what_to_do:
        yield Text("what to do", style="bold")
    for number, step in enumerate(answer.what_to_do, 1):
        yield from beside(console, Text(f" {number:>2}."), Text(safe(console, step)), indent=5, width=width)
    yield Text(line * width, style=style)


def print_check(console: Console, result: CheckResult, *, fail_on: str) -> None:
    """Print the lines, the cards, and the last lines with the sums and the reason for the exit code.

    `fail_on` is the name of the severity from which an issue fails the rehearsal.
    """
    for line in answer_lines(console, result.answers):
        console.print(line)
    console.print()
    for answer in result.faults:
        for line in fault_card(console, answer):
            console.print(line)
        console.print()
    sources = SourceText(str(result.run.folder))
    for group in issue_groups(result.issues):
        console.print(VerdictCard(group, sources=sources))
        console.print()
    for line in wrapped(console, Text(safe(console, summary(result, fail_on=fail_on))), console.width):
        console.print(line)


def summary(result: CheckResult, *, fail_on: str) -> str:
    """Return the sums, whether the rehearsal has failed and why, and its folder."""
    counts = {outcome: sum(each.outcome is outcome for each in result.answers) for outcome in Outcome}
    recovered = f", and {result.recovered} recovered" if result.recovered else ""
    words = [
        _count(counts[Outcome.FAULT], "fault"),
        f"{counts[Outcome.OK]} ok",
        f"{counts[Outcome.NOT_TRIED]} could not be tried",
        f"{counts[Outcome.DOES_NOT_APPLY]} did not apply",
        f"{_count(len(result.issues), 'issue')} of the rules{recovered}",
    ]
    return f"{'; '.join(words)}. {_verdict(result, fail_on)} Run: {result.run.folder}"


def _verdict(result: CheckResult, fail_on: str) -> str:
    found = [_count(len(result.faults), "fault")] if result.faults else []
    if result.failing:
        found.append(f"{_count(len(result.failing), 'issue')} at --fail-on {fail_on}")
    return f"Failed: {' and '.join(found)}." if found else "Passed."


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
