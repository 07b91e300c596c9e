"""The section on what changed at the steps that a page shows."""

from __future__ import annotations

import math
from collections.abc import Callable

from trackside.views.report.changes import BASELINE, Change, Changes
from trackside.views.report.charts.line_chart import number
from trackside.views.report.charts.markup import Child, Markup, element, joined, scrolled
from trackside.views.report.incident_section import statistic_words

_WORDS = ("What", "From step", "Before", "Here", "Least to most here", "Change")


def changes_section(found: Changes | None, address: Callable[[str, int | None], str]) -> Markup:
    """Return the section's content.

    Args:
        found: The changes; None if too few steps lie before.
        address: Returns the address of a tensor's page around a step.
    """
    if found is None:
        return element(
            "p",
            "These steps begin too near the start of the run: half as many steps must lie before them.",
        )
    first, last = found.baseline
    what = f"{found.compared:,} recorded numbers" if found.compared != 1 else "One recorded number"
    note = (
        f"{what} at steps {found.steps[0]:,} to {found.steps[1]:,}, against steps {first:,} to {last:,} "
        f"(up to {BASELINE} times as many, right before)."
    )
    if not found.found:
        return joined(element("p", note, class_="note"), element("p", "None is far from what it was before."))
    head = element("tr", *(element("th", word, scope="col") for word in _WORDS))
    rows = [_row(change, address) for change in found.found]
    more = f"{found.left_out:,} more changed less." if found.left_out else None
    table = element("table", element("thead", head), element("tbody", rows), class_="rules changes")
    return joined(
        element("p", note, class_="note"),
        scrolled(table, "What changed"),
        element("p", more, class_="note") if more else None,
    )


def _row(change: Change, address: Callable[[str, int | None], str]) -> Markup:
    name: Child = change.name
    if change.statistic:
        name = element("a", change.name, href=address(change.name, change.first_step))
    words = ", ".join(filter(None, (statistic_words(change.statistic), change.worker)))
    spread = "none finite" if math.isnan(change.low) else f"{number(change.low)} to {number(change.high)}"
    return element(
        "tr",
        element("td", name, element("small", f" {words}") if words else None),
        element("td", f"{change.first_step:,}", class_="count"),
        element("td", number(change.before), class_="count"),
        element("td", "not finite" if math.isnan(change.here) else number(change.here), class_="count"),
        element("td", spread, class_="count"),
        element("td", _change(change)),
    )


def _change(change: Change) -> Markup:
    """Return the change in words, and as a sign with a class, so that color is never alone."""
    if math.isinf(change.score):
        return element("span", "✖ not finite", class_="state critical")
    extreme = change.here if abs(change.here - change.before) > 0 else change.high
    is_up = extreme >= change.before
    ratio = extreme / change.before if change.before and extreme * change.before > 0 else math.nan
    if math.isnan(ratio) or 0.5 < ratio < 2:
        text = f"{number(change.score)} spreads of the baseline"
    else:
        text = f"x {number(ratio)}"
    return element("span", f"{'▲' if is_up else '▼'} {text}", class_="whole")
