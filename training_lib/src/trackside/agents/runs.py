"""Runs of one folder or prefix for agents: the list, and the verdict, rules and findings of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from trackside.agents.answers import (
    FindingLine,
    FindingPage,
    News,
    ProblemDetail,
    RuleLine,
    RulePage,
    RunLine,
    RunPage,
    RunVerdict,
)
from trackside.agents.paging import ROOM, fitting, position
from trackside.agents.problems import problem_detail, problem_line, subjects_of
from trackside.agents.text import by_shown_name, one_line, sentence, shown_name
from trackside.contracts.errors import ConfigurationError, Problem, RunNotFoundError, TracksideError, did_you_mean
from trackside.contracts.fields import write_number
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.local.run_now import steps_of, watermarks_of
from trackside.runs.command_end import exit_code_of
from trackside.runs.judged_part import worst_word
from trackside.runs.recorded_run import RecordedRun, read_run
from trackside.runs.rule_state import RuleState
from trackside.runs.run_folder import LATEST, is_worth_a_look
from trackside.runs.run_summary import RunSummary, summary_of
from trackside.runs.run_waiting import Wait, Waited, wait_for
from trackside.runs.source_text import SourceText
from trackside.trial.trial import Trial, trial_of
from trackside.views.dashboard.run_list import RunFilter, RunList

RUNS_AT_ONCE = 16
MOST_RUNS = 50
LOOKING_SECONDS = 2.0  # then a page ends, however few runs of it were found
MOST_STANDING, MOST_UNREADABLE, MOST_PROBLEMS = 4, 3, 3
_WELL = frozenset({RuleState.OK, RuleState.NOT_APPLICABLE})


class Runs:
    """The runs right below one place, by the names that agents see.

    Args:
        where: A folder that holds runs, or `s3://bucket/prefix`; None: the runs of `trackside run`.
        monotonic: Returns seconds that only grow.
    """

    def __init__(self, where: str | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.list = RunList(where, clock=monotonic)
        self._monotonic = monotonic

    def name(self, run: str) -> str:
        """Return the real name of a run that an agent names, or of the latest one.

        A name is looked up among those that were listed, so that no text from outside becomes a path.

        Raises:
            RunNotFoundError: There is no such run. Names one that is alike.
        """
        names = self.list.names()
        if run in names:
            return run
        if run == LATEST and names:
            return self._latest(names)
        known = by_shown_name(names)
        if run in known:
            return known[run]
        near = did_you_mean(run, [*list(known)[:200], LATEST]) if known else ""
        advice = near if near.startswith("Did") else "list_runs names the runs."
        raise RunNotFoundError(f"There is no run {one_line(run, 100)!r} here. {advice}")

    def uri(self, run: str) -> str:
        """Return the location of a run. Errors: those of `name`."""
        return self.list.place(self.name(run))

    def read(self, run: str) -> RecordedRun:
        """Return the recorded state of a run. Errors: those of `name`, and those of the store."""
        return read_run(self.uri(run), stores=self.list.stores)

    def trial(self, run: str) -> Trial:
        """Return the tensors of a run. Errors: those of `name`, and those of the store."""
        trial = trial_of(RunLocation(self.uri(run)), self.list.stores)
        trial.refresh()
        return trial

    def page(self, chosen: RunFilter, *, cursor: str, most: int) -> RunPage:
        """Return runs that a filter chooses, the newest first, as many as fit.

        Args:
            chosen: The filter.
            cursor: The name of the last run of the page before; "" for the newest runs.
            most: The largest number of runs.
        """
        names, begin = self.list.names(), self._monotonic()
        lines: list[tuple[str, RunLine]] = []
        unreadable: list[str] = []
        end = self._after(names, cursor)
        while end < len(names) and len(lines) <= most:
            some = names[end : end + RUNS_AT_ONCE]
            end += len(some)
            for name, found in self._chosen(some, chosen):
                if isinstance(found, TracksideError):
                    unreadable.append(f"{shown_name(name)}: {one_line(str(found), 150)}")
                else:
                    lines.append((name, run_line(found)))
            if self._monotonic() - begin >= LOOKING_SECONDS:
                break
        count = min(most, fitting([line for _, line in lines]))
        is_cut = count < len(lines)
        return RunPage(
            runs=tuple(line for _, line in lines[:count]),
            total=len(names),
            unreadable=tuple(unreadable[:MOST_UNREADABLE]),
            next_cursor=shown_name(lines[count - 1][0] if is_cut else names[end - 1])
            if is_cut or end < len(names)
            else "",
        )

    def verdict(self, run: str) -> RunVerdict:
        """Return the verdict on a run in short."""
        return short_verdict(self.read(run))

    def problem(self, run: str, problem: str) -> ProblemDetail:
        """Return a problem in full; the gravest one for "".

        Raises:
            ConfigurationError: The run has no such problem.
        """
        recorded = self.read(run)
        groups = {shown_name(group.group): group for group in recorded.groups}
        if not groups:
            what = "has no problem, standing or recovered."
            raise ConfigurationError([Problem(shown_name(recorded.location.name), what)], subject="The call")
        if problem and problem not in groups:
            fix = f"The run has: {', '.join(list(groups)[:MOST_PROBLEMS])}"
            what = f"{one_line(problem, 100)!r} is no problem of this run."
            raise ConfigurationError([Problem("problem", what, fix)], subject="The call")
        group = groups[problem] if problem else recorded.groups[0]
        sources = SourceText(recorded.location.uri)
        return problem_detail(recorded, group, sources, run=shown_name(recorded.location.name))

    def rules(self, run: str, *, cursor: str) -> RulePage:
        """Return the states of the rules of a run, those with an issue first, those that are well last."""
        recorded, order = self.read(run), list(RuleState)
        ordered = sorted(recorded.rules, key=lambda rule: (rule.state in _WELL, order.index(rule.state)))
        begin = position(cursor, most=len(ordered))
        lines = [
            RuleLine(
                shown_name(rule.name),
                rule.state.value,
                rule.judged,
                sentence(rule.detail, subjects_of(rule.verdict) if rule.verdict else ()),
            )
            for rule in ordered[begin:]
        ]
        end = begin + fitting(lines)
        name = shown_name(recorded.location.name)
        return RulePage(name, tuple(lines[: end - begin]), len(ordered), "" if end >= len(ordered) else str(end))

    def findings(self, run: str, *, since: str) -> FindingPage:
        """Return issues and recoveries after a cursor, in the order in which they came."""
        recorded = self.read(run)
        verdicts = recorded.verdicts
        begin = position(since, most=len(verdicts))
        found = [(place, one) for place, one in enumerate(verdicts[begin:], begin) if is_news(one)]
        lines = [finding_line(one) for _, one in found]
        count = fitting(lines)
        is_full = count < len(lines)
        cursor = found[count][0] if is_full else len(verdicts)
        return FindingPage(
            shown_name(recorded.location.name),
            recorded.state_in_words,
            tuple(lines[:count]),
            str(cursor),
            is_full,
        )

    def news(self, run: str, *, until_issue: bool, since: str) -> News:
        """Return the issues of a run after a cursor, or its end, or "timeout" if neither came so far."""
        uri = self.uri(run)
        wait = Wait(until_issue, 0.0, Severity.WARNING, position(since, most=1_000_000))
        return _news(wait_for(lambda: uri, wait, stores=self.list.stores))

    def _chosen(self, names: Sequence[str], chosen: RunFilter) -> Iterator[tuple[str, RunSummary | TracksideError]]:
        wanted = [name for name in names if chosen.name.lower() in name.lower()]
        for name, found in self.list.summaries(wanted):
            if isinstance(found, TracksideError) or chosen.chooses(found):
                yield name, found

    def _after(self, names: tuple[str, ...], cursor: str) -> int:
        """Return the place behind the run that a cursor names. Errors: those of `name`, for one that is gone."""
        if not cursor:
            return 0
        name = self.name(cursor)
        if name not in names:  # it came while the list was read
            raise RunNotFoundError(f"There is no run {one_line(cursor, 100)!r} here. Begin again without a cursor.")
        return names.index(name) + 1

    def _latest(self, names: Iterable[str]) -> str:
        """Return the newest run that captured something and is no rehearsal; else the newest."""
        ordered = tuple(names)
        if self.list.is_remote:
            return ordered[0]
        return next((name for name in ordered if is_worth_a_look(Path(self.list.place(name)))), ordered[0])


def run_line(run: RunSummary) -> RunLine:
    """Return a run in a list."""
    losses = run.judged.learning.losses
    last = losses.training.last if losses is not None and losses.training is not None else None
    return RunLine(
        run=shown_name(run.name),
        state=run.state_in_words,
        started_at=_moment(run.started_at),
        steps_saved=run.steps_saved,
        issues=run.issues,
        worst=worst_word(run.worst_severity, run.judged),
        standing=tuple(shown_name(name) for name in run.standing[:MOST_STANDING]),
        last_loss=None if last is None else write_number(last),
        note=one_line(run.judged.reservation, 150),
    )


def short_verdict(recorded: RecordedRun, *, run: str = "") -> RunVerdict:
    """Return the verdict on a run in short.

    Args:
        recorded: The run.
        run: Its name, as agents see it; "" for its own.
    """
    summary, sources = summary_of(recorded), SourceText(recorded.location.uri)
    lines = [problem_line(group, sources) for group in recorded.groups]
    standing = sum(1 for group in recorded.groups if group.standing)
    shown = lines[: min(MOST_PROBLEMS, fitting(lines, room=ROOM - 500))] if lines else []
    steps = steps_of(watermarks_of(recorded.location.uri)) or len(recorded.steps)
    found = f"{standing} problem{'' if standing == 1 else 's'}; {recorded.judged.counts(steps)} found nothing"
    return RunVerdict(
        run=run or shown_name(recorded.location.name),
        state=recorded.state_in_words,
        exit_code=None if summary.status is None else exit_code_of(summary.status),
        steps=steps,
        judged=recorded.judged.is_judged,
        worst=worst_word(summary.worst_severity, recorded.judged),
        headline=one_line(found if standing else recorded.judged.headline(steps)),
        reservation=one_line(recorded.judged.reservation),
        problems=tuple(shown),
        more_problems=len(lines) - len(shown),
        cursor=str(len(recorded.verdicts)),
    )


def is_news(verdict: Verdict) -> bool:
    """Return True for an issue or a recovery; False for a rule that found nothing or could not judge."""
    return verdict.outcome is Outcome.ISSUE_FOUND or verdict.state is State.RECOVERED


def finding_line(verdict: Verdict) -> FindingLine:
    """Return an issue or a recovery in short."""
    return FindingLine(
        finding=shown_name(verdict.verdict_id),
        rule=shown_name(verdict.configuration_name),
        severity=verdict.severity.value,
        state=verdict.state.value,
        step=verdict.shown_step,
        message=sentence(verdict.message, subjects_of(verdict)),
    )


def _news(waited: Waited) -> News:
    recorded = waited.recorded
    if recorded is None:
        raise RunNotFoundError("The run is gone.")
    sources = SourceText(recorded.location.uri)
    lines = [problem_line(group, sources) for group in waited.problems]
    return News(
        shown_name(recorded.location.name),
        waited.ended_by.value,
        recorded.state_in_words,
        tuple(lines[: fitting(lines)]),
        str(waited.cursor),
    )


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat(timespec="seconds")
