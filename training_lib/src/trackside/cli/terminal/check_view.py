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
from trackside.contracts.verdict import Verdict
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


def print_check(console: Console, answers: Sequence[Answer], issues: Sequence[Verdict], *, folder: str) -> None:
    """Print the lines, the cards, and a last line with the sums."""
    for line in answer_lines(console, answers):
        console.print(line)
    console.print()
    for answer in answers:
        if answer.outcome is Outcome.FAULT:
            for line in fault_card(console, answer):
                console.print(line)
            console.print()
    for group in issue_groups(issues):
        console.print(VerdictCard(group, sources=SourceText(folder)))
        console.print()
    counts = {outcome: sum(each.outcome is outcome for each in answers) for outcome in Outcome}
    words = [
        _count(counts[Outcome.FAULT], "fault"),
        f"{counts[Outcome.OK]} ok",
        f"{counts[Outcome.NOT_TRIED]} could not be tried",
        f"{counts[Outcome.DOES_NOT_APPLY]} did not apply",
        f"{_count(len(issues), 'issue')} of the rules",
    ]
    for line in wrapped(console, Text(safe(console, f"{'; '.join(words)}. Run: {folder}")), console.width):
        console.print(line)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
