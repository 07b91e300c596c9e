"""The answers of a rehearsal: a line for each probe, then a card for each fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from trackside.cli.terminal.console import safe
from trackside.cli.terminal.layout import beside, columns, wrapped
from trackside.cli.terminal.views.card import LABEL_COLUMNS, VerdictCard
from trackside.contracts.issue_group import issue_groups
from trackside.contracts.run.check import ALL_PROBES, Answer, Outcome
from trackside.rehearsal.check import CheckResult
from trackside.runs.source_text import SourceText

_LOOKS = {
    Outcome.FAULT: ("✖", "X", "bold red"),
    Outcome.NOT_TRIED: ("◌", "?", "yellow"),
    Outcome.OK: ("✔", "+", "green"),
    Outcome.DOES_NOT_APPLY: ("–", "-", "dim"),
}


def answer_lines(console: Console, answers: Sequence[Answer]) -> Iterator[Text]:
    """Yield a line for each answer, in the order of the probes.

    Those that the same reason kept from trying share a line, and so do those that do not apply.
    """
    rows = []
    for alike in _alike(answers):
        answer = alike[0]
        symbol, ascii_symbol, style = _LOOKS[answer.outcome]
        mark = f"{ascii_symbol if console.options.ascii_only else symbol} {answer.outcome.value}"
        detail = answer.what if answer.outcome is Outcome.FAULT else answer.observed
        name = answer.probe
        if len(alike) > 1:
            name, detail = f"{len(alike)} probes", f"{_shared_reason(alike)}: {', '.join(each.probe for each in alike)}"
        rows.append([Text(mark, style=style), Text(safe(console, name)), Text(safe(console, detail))])
    return columns(console, rows)


def _alike(answers: Sequence[Answer]) -> Iterator[Sequence[Answer]]:
    """Yield the answers, those together that share a line, at the place of the first."""
    sharing: dict[tuple[Outcome, str], list[Answer]] = {}
    for answer in answers:
        sharing.setdefault(_line_of(answer), []).append(answer)
    yield from sharing.values()


def _line_of(answer: Answer) -> tuple[Outcome, str]:
    """Return the key of the line that the answer stands in."""
    if answer.outcome is Outcome.DOES_NOT_APPLY:
        return answer.outcome, ""
    return answer.outcome, answer.observed if answer.outcome is Outcome.NOT_TRIED else answer.probe


def _shared_reason(alike: Sequence[Answer]) -> str:
    reasons = {answer.observed for answer in alike}
    return reasons.pop() if len(reasons) == 1 else "nothing here is of their kind; the reasons are in --json"


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
    if found:
        return f"Failed: {' and '.join(found)}."
    if result.not_judged:
        return f"Not judged: {result.not_judged}."
    return "Passed, but hardly checked: few probes could be tried." if _is_hardly_checked(result) else "Passed."


def _is_hardly_checked(result: CheckResult) -> bool:
    outcomes = [answer.outcome for answer in result.answers]
    if any(each.probe == ALL_PROBES and each.outcome is Outcome.NOT_TRIED for each in result.answers):
        return True
    return outcomes.count(Outcome.NOT_TRIED) >= max(1, outcomes.count(Outcome.OK))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
