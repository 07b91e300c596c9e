"""The messages of `trackside run` on stderr: location of the run, each issue as it comes, and a summary."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from trackside.cli.terminal.card import VerdictCard
from trackside.cli.terminal.console import keeps_up, progress_console, safe
from trackside.cli.terminal.layout import beside, wrapped
from trackside.cli.terminal.rule_lines import rule_lines
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.local.preflight import RulePlan
from trackside.local.run import LocalRunResult
from trackside.local.run_folder import RUNS
from trackside.local.source_text import SourceText

MOST_RULES_NAMED = 4  # that is one line of 80 columns


class RunView:
    """Writes messages between the lines of the training. Without a reader it falls silent, and the training goes on."""

    def __init__(self, *, color: bool) -> None:
        self._console: Console = progress_console(color=color)
        self._is_read = True
        self._shown: set[str] = set()
        self._sources: SourceText | None = None

    def begin(self, folder: str, plan: RulePlan) -> None:
        """Show the location of the run and its rules."""
        self._sources = SourceText(folder)
        self.note(f"run {folder}")
        ready = len(plan.request.rules) - len(plan.notes)
        self.note(f"rules {_names(plan)}{f'; ready: {ready} of {len(plan.request.rules)}' if plan.notes else ''}")
        for note in plan.notes:
            self.note(f"warning: {note}")

    def note(self, text: str) -> None:
        """Show one line, marked as Trackside's; on a narrow terminal several."""
        label, line = Text("trackside:", style="bold"), Text(safe(self._console, text))
        if self._console.is_terminal:
            self._print(*beside(self._console, label, line, indent=len(label) + 1, width=self._console.width))
        else:  # one line, for `grep`
            self._print(Text() + label + Text(" ") + line, soft_wrap=True)

    def issue(self, group: IssueGroup) -> None:
        """Show the card, set off from the training's own lines. A problem that is shown again is marked as updated."""
        is_update = group.group in self._shown
        self._shown.add(group.group)
        self._print(Text(), VerdictCard(group, is_update=is_update, sources=self._sources), Text())

    def end(self, result: LocalRunResult, folder: str, *, exit_code: int, fail_on: str) -> None:
        """Show the summary."""
        console = self._console
        characters = "-" if console.options.ascii_only else "─"
        parts: list[Rule | Text] = [Rule(Text("trackside", style="bold"), align="left", characters=characters)]
        lines = [Text(_headline(result))]
        if result.capture_problem:
            lines.append(Text(f"Nothing was captured. {result.capture_problem}", style="yellow"))
        if result.evaluator_problem:
            lines.append(Text(f"Not everything was judged: {result.evaluator_problem}", style="yellow"))
        for text in lines:
            parts += wrapped(console, Text(safe(console, text.plain), style=text.style), console.width)
        parts += [Text(), *rule_lines(console, result.rules), Text()]
        parts += _facts(console, result, folder, exit_code=exit_code, fail_on=fail_on)
        self._print(*parts)

    def _print(self, *parts: Rule | Text | VerdictCard, soft_wrap: bool = False) -> None:
        if not self._is_read:
            return
        try:
            for part in parts:
                self._console.print(part, soft_wrap=soft_wrap)
        except BrokenPipeError:
            pass
        self._is_read = keeps_up(self._console)


def _names(plan: RulePlan) -> str:
    names = [rule.name for rule in plan.request.rules]
    return ", ".join(names) if len(names) <= MOST_RULES_NAMED else f"{len(names)}, in {RULE_REQUEST_KEY} of the run"


def _headline(result: LocalRunResult) -> str:
    if result.stopped_for:
        verdict = result.stopped_for
        return f"Stopped by Trackside: {verdict.configuration_name} found a critical issue at step {verdict.step}."
    if result.status < 0:
        return f"The training was ended by {_signal_name(-result.status)}."
    return "The training ran to its end." if result.status == 0 else f"The training ended with code {result.status}."


def _facts(console: Console, result: LocalRunResult, folder: str, *, exit_code: int, fail_on: str) -> Iterator[Text]:
    rows = [("steps", _steps(result)), ("run", folder), ("more", f"trackside findings {_name(folder)}")]
    if exit_code != (result.status if result.status >= 0 else 128 - result.status):
        reason = "stopped by Trackside" if result.stopped_for else f"an issue reached --fail-on {fail_on}"
        rows.append(("exit", f"{exit_code} ({reason})"))
    for label, text in rows:
        yield from beside(console, Text(label, style="bold"), Text(safe(console, text)), indent=7, width=console.width)


def _steps(result: LocalRunResult) -> str:
    through = max((rule.judged_through for rule in result.rules), default=-1)
    if not result.steps:
        return f"none saved; by statistics judged through step {through}" if through >= 0 else "none saved"
    first, last = result.steps[0], result.steps[-1]
    judged = f"judged through step {through}" if through >= 0 else "none judged"
    return f"{len(result.steps)} saved, step {first} to {last}; {judged}"


def _name(folder: str) -> str:
    """Return the short name if it finds the run, else the folder."""
    return Path(folder).name if Path(folder).parent == RUNS else folder


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
