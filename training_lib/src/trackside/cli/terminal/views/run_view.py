"""The messages of `trackside run` on stderr: a line at the start, a card for each problem, and a line at the end.

Each message is one write that begins on an empty line, so that no progress bar of the training cuts into it.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from pathlib import Path

from rich.console import Console
from rich.text import Text

from trackside.choosing.preflight import RulePlan
from trackside.cli.terminal.console import keeps_up, progress_console, safe
from trackside.cli.terminal.layout import beside
from trackside.cli.terminal.status_title import StatusTitle
from trackside.cli.terminal.views.card import VerdictCard
from trackside.cli.terminal.views.rule_lines import rule_lines
from trackside.cli.terminal.views.run_summary import problem_line, summary_lines
from trackside.contracts.cause import EXPLANATIONS, Cause
from trackside.contracts.english import counted
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.verdict import Severity
from trackside.local.run import LocalRunResult
from trackside.local.run_now import RunNow
from trackside.runs.rule_state import RuleState
from trackside.runs.run_folder import LATEST, RUNS
from trackside.runs.source_text import SourceText

MOST_RULES_NAMED = 4  # that is one line of 80 columns
EMPTY_LINE = "\r\x1b[K"  # the line that a progress bar may have begun
# Lines below a message, which the next redraw of a bar of two lines erases.
GAP_LINES = 1

_PREFIX = "trackside:"


class Verbosity(Enum):
    """The amount of messages."""

    QUIET = "problems only"
    NORMAL = "problems, and a line at the start and at the end"
    VERBOSE = "everything"


class RunView:
    """Writes messages between the lines of the training. Without a reader it falls silent, and the training goes on.

    Args:
        color: False for no colours.
        verbosity: The amount of messages.
    """

    def __init__(self, *, color: bool, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        self._console: Console = progress_console(color=color)
        self._verbosity = verbosity
        self._is_read = True
        self._shown: dict[str, tuple[Severity, Cause | None]] = {}
        self._sources: SourceText | None = None
        shows_title = self._console.is_terminal and verbosity is not Verbosity.QUIET
        self._title = StatusTitle(self._console.file) if shows_title else None

    def begin(self, folder: str, plan: RulePlan) -> None:
        """Show the location of the run and its rules, and a line for each rule that lacks something."""
        self._sources = SourceText(folder)
        if self._verbosity is not Verbosity.QUIET:
            self._line(f"{_names(plan)} judge{'s' if len(plan.request.rules) == 1 else ''} {folder}")
        for note in plan.notes:
            self._line(f"warning: {note}")

    def note(self, text: str) -> None:
        """Show one line, marked as Trackside's; on a narrow terminal several."""
        self._line(text, gap=GAP_LINES if self._console.is_terminal else 0)

    @property
    def shows_progress(self) -> bool:
        """True if stderr is a terminal with a title to show the state in."""
        return self._title is not None

    def hint(self, text: str) -> None:
        """Show a line, unless only problems are wanted."""
        if self._verbosity is not Verbosity.QUIET:
            self.note(text)

    def detail(self, text: str) -> None:
        """Show a line that only users of `-v` want."""
        if self._verbosity is Verbosity.VERBOSE:
            self.note(text)

    def progress(self, now: RunNow) -> None:
        """Show the present state of the run in the title of the terminal."""
        if self._title is not None and self._is_read:
            self._title.show(now)

    def issue(self, group: IssueGroup) -> None:
        """Show the card, set off from the training's own lines.

        A problem that was shown before has one line when it becomes graver, or when another cause is likelier.
        """
        lead, cause = group.lead, group.suspicions[0].cause if group.suspicions else None
        before = self._shown.get(group.group)
        if before is None:
            self._shown[group.group] = (lead.severity, cause)
            self._print(Text(), VerdictCard(group, sources=self._sources), *[Text()] * GAP_LINES)
            return
        is_graver, is_other_cause = lead.severity.rank > before[0].rank, cause not in (before[1], None)
        if not (is_graver or is_other_cause):
            return
        self._shown[group.group] = (max(lead.severity, before[0], key=lambda severity: severity.rank), cause)
        news = [
            lead.harm if is_graver else "",
            f"likely now: {EXPLANATIONS[cause].what}" if cause and is_other_cause else "",
        ]
        line = problem_line(group, ascii_only=self._console.options.ascii_only)
        self.note("; ".join([line, *filter(None, news)]))

    def end(self, result: LocalRunResult, folder: str, *, exit_code: int, fail_on: str) -> None:
        """Show the summary, with `-v` also a line for each rule."""
        if self._title is not None:
            self._title.close()
        if self._verbosity is Verbosity.VERBOSE and not result.capture_problem:
            self._print(*rule_lines(self._console, result.rules))
            self.note(
                f"{counted(len(result.steps), 'step')} with saved tensors; more: trackside doctor {_name(folder)}"
            )
        if self._verbosity is Verbosity.QUIET and _is_healthy(result):
            return
        is_ascii = self._console.options.ascii_only
        lines = summary_lines(result, run=_name(folder), exit_code=exit_code, fail_on=fail_on, ascii_only=is_ascii)
        for line in lines:
            self._line(line)

    def _line(self, text: str, *, gap: int = 0) -> None:
        label, line = Text(_PREFIX, style="bold"), Text(safe(self._console, text))
        if self._console.is_terminal:
            self._print(
                *beside(self._console, label, line, indent=len(label) + 1, width=self._console.width), *[Text()] * gap
            )
        else:  # one line, for `grep`
            self._print(Text() + label + Text(" ") + line, soft_wrap=True)

    def _print(self, *parts: Text | VerdictCard, soft_wrap: bool = False) -> None:
        if not self._is_read:
            return
        with self._console.capture() as captured:
            for part in parts:
                self._console.print(part, soft_wrap=soft_wrap)
        with contextlib.suppress(BrokenPipeError):
            self._console.file.write(f"{EMPTY_LINE if self._console.is_terminal else ''}{captured.get()}")
        self._is_read = keeps_up(self._console)


def _names(plan: RulePlan) -> str:
    names = [rule.name for rule in plan.request.rules]
    return ", ".join(names) if len(names) <= MOST_RULES_NAMED else f"{len(names)} rules"


def _is_healthy(result: LocalRunResult) -> bool:
    has_trouble = any(rule.state in (RuleState.ISSUE, RuleState.ERROR) for rule in result.rules)
    has_trouble |= any(result.learning.clauses) or result.rescue is not None
    return not (has_trouble or result.capture_problem or result.evaluator_problem or result.status)


def _name(folder: str) -> str:
    """Return the shortest name that finds the run."""
    return LATEST if Path(folder).parent == RUNS else folder
