"""The page with the list of runs: a search by name, state, gravest issue and rule, and a choice of runs to compare."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.errors import TracksideError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.dashboard.run_list import CLEAN, NOT_JUDGED, STATES, WORST, AlikeRuns, RunFilter, alike_word
from trackside.dashboard.shell import SIGNS, address_of, page_with, with_query
from trackside.local.first_failure import FirstFailure
from trackside.local.recorded_run import RunSummary
from trackside.local.run_folder import RunState
from trackside.local.run_storage import RunStorage
from trackside.report.markup import Markup, element, joined, scrolled
from trackside.report.page import duration

MOST_RULES = 3  # of a run, that its row names
MOST_KINDS = 20  # of failures
_WORDS = {CLEAN: "no issue", NOT_JUDGED: "not judged"}


@dataclass(frozen=True)
class ListedRuns:
    """A page of the list of runs.

    where   the folder or prefix
    shown   name and summary of each run on this page, or the error that stands for it
    storage the room that runs on this page take, by their names
    wanted  the filter
    found   number of runs that it chooses
    unread  runs that could not be read, so that the filter leaves them out
    page    number of this page, from 1; `pages` of them
    looked_at   number of runs, the newest, that `alike` and `hours` are about
    alike   those of them that failed, by what went wrong first
    hours   how long they trained
    """

    where: str
    shown: Sequence[tuple[str, RunSummary | TracksideError]]
    storage: Mapping[str, RunStorage]
    wanted: RunFilter
    found: int
    unread: int
    page: int
    pages: int
    looked_at: int
    alike: Sequence[AlikeRuns]
    hours: Hours


@dataclass(frozen=True)
class Hours:
    """Time that runs trained, in seconds: all of it, that of failed runs, and that after their failure was found.

    runs   number of the runs of which it is known
    """

    runs: int
    all: float
    failed: float
    after: float


def trained_seconds(run: RunSummary, stored: RunStorage | None, *, now: float) -> tuple[float, float] | None:
    """Return how long a run trained, and how long after its first critical issue was found; None if it is not known.

    Without a record of `trackside run` the start is that of its statistics, the end the moment at which it was stored.

    Args:
        run: The run.
        stored: What a listing shows of it; None without one.
        now: Seconds since the epoch.
    """
    begin = run.started_at if run.started_at is not None or stored is None else stored.started_at
    end = run.ended_at if run.ended_at is not None or stored is None else stored.ended_at
    if end is None and run.state is RunState.RUNNING:
        end = now
    if begin is None or end is None or end < begin:
        return None
    found = end if run.failed_at is None else min(end, max(begin, run.failed_at))
    return end - begin, end - found


def hours_of(runs: Sequence[RunSummary], storage: Mapping[str, RunStorage], *, now: float) -> Hours:
    """Return how long runs trained, of those with a known start and end.

    Args:
        runs: The runs.
        storage: What a listing shows of them, by their names; not of all.
        now: Seconds since the epoch.
    """
    known = [(run, both) for run in runs if (both := trained_seconds(run, storage.get(run.name), now=now)) is not None]
    return Hours(
        len(known),
        sum(seconds for _, (seconds, _) in known),
        sum(seconds for run, (seconds, _) in known if run.failed_at is not None),
        sum(after for _, (_, after) in known),
    )


def list_page(listed: ListedRuns) -> str:
    """Return the page with the runs."""
    if listed.shown:
        content: Markup = element(
            "form",
            element("button", "Compare those that are marked"),
            _runs_table(listed),
            action="/compare",
            id="runs",
        )
    else:
        content = element("p", _why_no_run(listed), id="runs")
    return page_with(
        f"Runs in {listed.where}",
        element(
            "header",
            element("p", "Trackside", class_="kicker"),
            element("h1", "Runs"),
            _where(listed),
            _hours(listed),
            _search(listed.wanted),
        ),
        element("main", content, _other_pages(listed), _alike(listed)),
    )


def _search(wanted: RunFilter) -> Markup:
    rules = (element("option", value=rule) for rule in sorted(built_in_catalogue().rules))
    everything = element("a", "All runs", href="/") if wanted != RunFilter() else None
    return element(
        "form",
        element("label", "Name holds ", element("input", type="search", name="q", value=wanted.name)),
        element("label", "State ", _select("state", "any state", STATES, wanted.state)),
        element("label", "Worst ", _select("worst", "any", WORST, wanted.worst)),
        element(
            "label",
            "Rule ",
            element(
                "input",
                type="search",
                name="rule",
                value=wanted.rule,
                list="known-rules",
                placeholder="any rule that fired",
            ),
        ),
        element("datalist", rules, id="known-rules"),
        element("button", "Show"),
        everything,
        role="search",
        class_="filter",
    )


def _select(name: str, any_word: str, values: Sequence[str], chosen: str) -> Markup:
    options = [element("option", any_word, value="")]
    options += [element("option", _WORDS.get(one, one), value=one, selected=one == chosen) for one in values]
    return element("select", options, name=name)


def _where(listed: ListedRuns) -> Markup:
    count = f"{listed.found:,} run{'s' * (listed.found != 1)}"
    left_out = f"; {listed.unread:,} more cannot be read" if listed.unread else ""
    alike = listed.alike[0].first if listed.wanted.alike and listed.alike else None
    how = joined("; failed alike: ", _failure(alike)) if alike else None
    return element("p", f"{count} in ", element("code", listed.where), left_out, how)


def _failure(first: FirstFailure) -> Markup:
    cause = f", cause {first.cause}" if first.cause else None
    return joined(element("b", first.rule_id), " first, in ", element("code", first.layer_kind), cause)


def _why_no_run(listed: ListedRuns) -> str:
    if listed.wanted != RunFilter():
        return "No run here is like that."
    return "No run yet. Start one: trackside run -- python train.py"


def _runs_table(listed: ListedRuns) -> Markup:
    words = ("Compare", "Run", "Worst", "State, started", "Trained", "Storage", "Command")
    head = element("tr", *(element("th", word, scope="col") for word in words))
    now = time.time()
    rows = [_run_row(name, summary, listed.storage.get(name), now) for name, summary in listed.shown]
    return element("table", element("thead", head), element("tbody", rows), class_="rules runs listed")


def _run_row(name: str, summary: RunSummary | TracksideError, stored: RunStorage | None, now: float) -> Markup:
    pick = element("input", type="checkbox", name="run", value=name, aria_label=f"Compare {name}")
    link = element("a", name, href=address_of(name))
    if isinstance(summary, TracksideError):
        why = str(summary).partition("\n")[0]
        return element("tr", element("td"), element("td", link), element("td", f"⚠ cannot be read: {why}", colspan=5))
    return element(
        "tr",
        element("td", pick),
        element("td", link),
        element("td", _worst(summary), _fired(summary)),
        element("td", summary.state_in_words, element("small", _started(summary, stored), class_="fired whole")),
        element("td", _trained(summary, stored, now), class_="trained"),
        element("td", element("span", _room(stored), class_="whole room"), _saved(summary)),
        element("td", element("code", " ".join(summary.command))),
    )


def _started(run: RunSummary, stored: RunStorage | None) -> str:
    moment = run.started_at if run.started_at is not None or stored is None else stored.started_at
    return "unknown" if moment is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment))


def _trained(run: RunSummary, stored: RunStorage | None, now: float) -> Markup:
    known = trained_seconds(run, stored, now=now)
    if known is None:
        return element("span", "unknown", class_="whole")
    seconds, after = known
    more = element("small", f"{duration(after)} after ✖ was found", class_="fired") if run.failed_at and after else None
    return joined(element("span", duration(seconds), class_="whole"), more)


def _saved(run: RunSummary) -> Markup:
    count = run.steps_saved
    return element("small", f"{count:,} step{'s' * (count != 1)} saved", class_="fired whole")


def _room(stored: RunStorage | None) -> str:
    if stored is None:
        return "unknown"
    return f"{'' if stored.is_whole else 'over '}{size(stored.size_bytes)}"


def size(count: int) -> str:
    """Return a number of bytes in the unit that suits it: `12.3 MB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"


def _hours(listed: ListedRuns) -> Markup | None:
    """Return how long the runs trained, and how much of it was for nothing; None if no time is known."""
    found = listed.hours
    if not found.all:
        return None
    which = "They" if listed.looked_at == listed.found else f"The newest {listed.looked_at:,}"
    some = "" if found.runs == listed.looked_at else f" (known of {found.runs:,})"
    words = f"{which} trained for {duration(found.all)}{some}"
    if found.failed:
        words += f": {duration(found.failed)} of it in runs that a critical issue spoiled"
        words += f", {duration(found.after)} after it was found" if found.after else ""
    return element("p", f"{words}.", class_="note")


def _alike(listed: ListedRuns) -> Markup | None:
    """Return the failures that several runs share, each with a link to its runs."""
    several = [one for one in listed.alike if len(one.runs) > 1]
    if not several:
        return None
    words = ("Runs", "First", "In", "Cause")
    heads = [element("th", word, scope="col") for word in words]
    head = element("tr", heads, element("th", "From step", scope="col", class_="count"))
    rows = [
        element(
            "tr",
            element("td", element("a", f"{len(one.runs):,} runs", href=_alike_address(one)), class_="whole"),
            element("td", one.first.rule_id),
            element("td", element("code", one.first.layer_kind)),
            element("td", one.first.cause or "not known"),
            element("td", f"{one.first.since_step:,}", class_="count"),
        )
        for one in several[:MOST_KINDS]
    ]
    which = "" if listed.looked_at == listed.found else f"Among the newest {listed.looked_at:,}. "
    note = f"{which}The same rule first, on the same kind of layer, from the same cause; numbers in names are left out."
    table = element("table", element("thead", head), element("tbody", rows), class_="rules")
    return element(
        "section",
        element("h2", "Runs that failed alike"),
        element("p", note, class_="note"),
        scrolled(table, "Runs that failed alike"),
    )


def _alike_address(one: AlikeRuns) -> str:
    return with_query("/", RunFilter(alike=alike_word(one.first)).query)


def _worst(run: RunSummary) -> Markup:
    worst = run.worst_severity
    if worst is None:
        judged = run.judged
        word, looks = (f"✔ {judged.no_issue}", "ok") if judged.is_judged else (f"◌ {judged.no_issue}", "unknown")
    else:
        word, looks = f"{SIGNS[worst]} {worst.value}, {run.issues} issue{'s' * (run.issues != 1)}", worst.value
    recovered = f", {run.recovered} recovered" if run.recovered else ""
    return element("span", f"{word}{recovered}", class_=f"state {looks}")


def _fired(run: RunSummary) -> Markup | None:
    """Return the rules with standing issues, each as a link to all runs with an issue of it."""
    if not run.standing:
        return None
    links = [
        joined(", " if place else "", element("a", name, href=with_query("/", RunFilter(rule=name).query)))
        for place, name in enumerate(run.standing[:MOST_RULES])
    ]
    more = f" and {len(run.standing) - MOST_RULES} more" if len(run.standing) > MOST_RULES else None
    return element("small", links, more, class_="fired")


def _other_pages(listed: ListedRuns) -> Markup | None:
    if listed.pages < 2:
        return None
    near = {1, listed.pages, *range(listed.page - 2, listed.page + 3)}
    links = [
        element(
            "a",
            str(page),
            href=with_query("/", {**listed.wanted.query, "page": page}),
            aria_current="page" if page == listed.page else None,
        )
        for page in sorted(near)
        if 1 <= page <= listed.pages
    ]
    return element("nav", "Page", links, aria_label="Pages of runs")
