"""The page with the list of runs: a search by name, state, gravest issue and rule, and a choice of runs to compare."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from trackside.contracts.errors import TracksideError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.dashboard.run_list import CLEAN, NOT_JUDGED, STATES, WORST, RunFilter
from trackside.dashboard.shell import SIGNS, address_of, page_with, with_query
from trackside.local.recorded_run import RunSummary
from trackside.report.markup import Markup, element, joined

MOST_RULES = 3  # of a run, that its row names
_WORDS = {CLEAN: "no issue", NOT_JUDGED: "not judged"}


@dataclass(frozen=True)
class ListedRuns:
    """A page of the list of runs.

    where   the folder or prefix
    shown   name and summary of each run on this page, or the error that stands for it
    wanted  the filter
    found   number of runs that it chooses
    unread  runs that could not be read, so that the filter leaves them out
    page    number of this page, from 1; `pages` of them
    """

    where: str
    shown: Sequence[tuple[str, RunSummary | TracksideError]]
    wanted: RunFilter
    found: int
    unread: int
    page: int
    pages: int


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
            _search(listed.wanted),
        ),
        element("main", content, _other_pages(listed)),
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
    return element("p", f"{count} in ", element("code", listed.where), left_out)


def _why_no_run(listed: ListedRuns) -> str:
    if listed.wanted != RunFilter():
        return "No run here is like that."
    return "No run yet. Start one: trackside run -- python train.py"


def _runs_table(listed: ListedRuns) -> Markup:
    words = ("Compare", "Run", "Worst", "State", "Started", "Steps saved", "Command")
    head = element("tr", *(element("th", word, scope="col") for word in words))
    rows = [_run_row(name, summary) for name, summary in listed.shown]
    return element("table", element("thead", head), element("tbody", rows), class_="rules runs listed")


def _run_row(name: str, summary: RunSummary | TracksideError) -> Markup:
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
        element("td", summary.state.value, class_="whole"),
        element("td", _started(summary), class_="whole"),
        element("td", f"{summary.steps_saved:,}", class_="count"),
        element("td", element("code", " ".join(summary.command))),
    )


def _started(run: RunSummary) -> str:
    if run.started_at is None:
        return "unknown"
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(run.started_at))


def _worst(run: RunSummary) -> Markup:
    worst = run.worst_severity
    if worst is None:
        word, looks = ("✔ none", "ok") if run.was_judged else ("◌ not judged", "unknown")
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
