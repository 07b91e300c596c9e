"""The page with the list of runs: a search by name, state, gravest issue and rule, and a choice of runs to compare."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.errors import TracksideError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.last_losses import LastLoss
from trackside.runs.first_failure import FirstFailure
from trackside.runs.judged_part import CLEAN, NOT_JUDGED
from trackside.runs.run_storage import RunStorage
from trackside.runs.run_summary import RunSummary
from trackside.trial.tensors.buckets import Buckets
from trackside.views.dashboard.run_list import STATES, WORST, AlikeRuns, FoundLosses, RunFilter, alike_word
from trackside.views.dashboard.run_order import ASCENDING, DESCENDING, RunOrder
from trackside.views.dashboard.run_time import Hours, moment_of_start, trained_seconds
from trackside.views.dashboard.shell import SIGNS, address_of, page_with, with_query
from trackside.views.report.charts.line_chart import number, small_chart
from trackside.views.report.charts.markup import Markup, element, joined, scrolled
from trackside.views.report.page import duration

MOST_RULES = 3  # of a run, that its row names
MOST_KINDS = 20  # of failures
# Heads of the columns, and what runs are sorted by there; "" where they are not.
COLUMNS = (
    ("Compare", ""),
    ("Run", "run"),
    ("Worst", "worst"),
    ("State, started", "started"),
    ("Trained", "trained"),
    ("Storage", "storage"),
    ("Last loss", "loss"),
)
EVALUATION = ("In evaluation", "evaluation")  # where a run on the page has such a loss
_ARROWS = {ASCENDING: " ▲", DESCENDING: " ▼"}
_WORDS = {CLEAN: "no issue", NOT_JUDGED: "not judged"}


@dataclass(frozen=True)
class ListedRuns:
    """A page of the list of runs.

    where   the folder or prefix
    shown   name and summary of each run on this page, or the error that stands for it
    storage the room that runs on this page take, by their names
    losses  their losses
    wanted  the filter
    order   the order
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
    losses: Mapping[str, FoundLosses]
    wanted: RunFilter
    order: RunOrder
    found: int
    unread: int
    page: int
    pages: int
    looked_at: int
    alike: Sequence[AlikeRuns]
    hours: Hours


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
            _search(listed.wanted, listed.order),
        ),
        element("main", content, _other_pages(listed), _alike(listed)),
    )


def _search(wanted: RunFilter, order: RunOrder) -> Markup:
    rules = (element("option", value=rule) for rule in sorted(built_in_catalogue().rules))
    everything = element("a", "All runs", href="/") if wanted != RunFilter() or order.by else None
    kept = [element("input", type="hidden", name=name, value=value) for name, value in order.query.items() if value]
    return element(
        "form",
        kept,
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
    columns = [*COLUMNS, EVALUATION] if _shows_evaluations(listed) else COLUMNS
    head = element("tr", *(_head(listed, word, by) for word, by in columns))
    now = time.time()
    rows = [_run_row(listed, name, summary, now=now, columns=len(columns)) for name, summary in listed.shown]
    return element("table", element("thead", head), element("tbody", rows), class_="rules runs listed")


def _shows_evaluations(listed: ListedRuns) -> bool:
    found = (getattr(losses, "evaluation", None) for losses in listed.losses.values())
    return listed.order.by == EVALUATION[1] or any(found)


def _head(listed: ListedRuns, word: str, by: str) -> Markup:
    """Return the head of a column; of one that runs can be sorted by, with a link that does it."""
    if not by:
        return element("th", word, scope="col")
    is_sorted = by == listed.order.by
    sign = element("span", _ARROWS[listed.order.order], aria_hidden="true") if is_sorted else None
    address = with_query("/", {**listed.wanted.query, **listed.order.chosen(by).query})
    link = element("a", word, sign, href=address)
    return element("th", link, scope="col", aria_sort=listed.order.order if is_sorted else None)


def _run_row(
    listed: ListedRuns, name: str, summary: RunSummary | TracksideError, *, now: float, columns: int
) -> Markup:
    stored, losses = listed.storage.get(name), listed.losses.get(name)
    pick = element("input", type="checkbox", name="run", value=name, aria_label=f"Compare {name}")
    link = element("a", name, href=address_of(name))
    if isinstance(summary, TracksideError):
        why = str(summary).partition("\n")[0]
        words = element("td", f"⚠ cannot be read: {why}", colspan=columns - 2)
        return element("tr", element("td"), element("td", link), words)
    evaluation = element("td", _loss(losses, "evaluation"), class_="loss evaluation")
    return element(
        "tr",
        element("td", pick),
        element("td", link, _command(summary)),
        element("td", _worst(summary), _fired(summary)),
        element("td", summary.state_in_words, element("small", _started(summary, stored), class_="fired whole")),
        element("td", _trained(summary, stored, now), class_="trained"),
        element("td", element("span", _room(stored), class_="whole room"), _saved(summary)),
        element("td", _loss(losses, "training"), class_="loss"),
        evaluation if columns > len(COLUMNS) else None,
    )


def _command(run: RunSummary) -> Markup | None:
    """Return the command of a run, which is shown in two lines at most, and whole in its title."""
    words = " ".join(run.command)
    return element("small", element("code", words), class_="fired command", title=words) if words else None


def _loss(found: FoundLosses | None, which: str) -> Markup:
    """Return the last value of a loss and its curve, titled with its numbers."""
    if isinstance(found, TracksideError):
        return element("span", "⚠ cannot be read", title=str(found).partition("\n")[0])
    loss: LastLoss | None = getattr(found, which, None)
    if loss is None:
        return element("span", "no loss" if which == "training" else "–", class_="whole none")
    last = number(loss.last) if math.isfinite(loss.last) else f"⚠ {loss.last}"
    curve = _curve(loss)
    steps = int(curve.first[0]), int(curve.last[-1])
    return joined(element("span", last, class_="whole"), small_chart(loss.name, curve, steps=steps))


def _curve(loss: LastLoss) -> Buckets:
    first, last, low, mean, high, count, broken = np.array(loss.points).T
    whole = (first.astype(np.int64), last.astype(np.int64), low, mean, high, count.astype(np.int64))
    return Buckets(*whole, is_broken=broken > 0)


def _started(run: RunSummary, stored: RunStorage | None) -> str:
    moment = moment_of_start(run, stored)
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
    worst, judged = run.worst_severity, run.judged
    if worst is None:
        word, looks = (f"✔ {judged.no_issue}", "ok") if judged.is_well else (f"◌ {judged.no_issue}", "unknown")
    else:
        issues = f"{run.issues} issue{'s' * (run.issues != 1)}" if run.issues else judged.learning.word
        word, looks = f"{SIGNS[worst]} {worst.value}, {issues}", worst.value
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
            href=with_query("/", {**listed.wanted.query, **listed.order.query, "page": page}),
            aria_current="page" if page == listed.page else None,
        )
        for page in sorted(near)
        if 1 <= page <= listed.pages
    ]
    return element("nav", "Page", links, aria_label="Pages of runs")
