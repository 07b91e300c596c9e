"""The shared parts of the dashboard's pages: addresses, the head and the foot, the choice of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from trackside import __version__
from trackside.contracts.verdict import Severity
from trackside.views.dashboard.watched import Window
from trackside.views.report.charts.heatmap import MOST_ROWS
from trackside.views.report.charts.look import SCALES, SMOOTHINGS, Look
from trackside.views.report.charts.markup import Markup, element, joined
from trackside.views.report.layers import LayerChoice
from trackside.views.report.page import document_of

TIME = "time"  # the other axis, in addresses
AROUND = 50  # steps before the one from which a finding holds, that its evidence shows
ALL: Window = (None, None)
SIGNS = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "●"}
_HEAD = (
    element("link", rel="icon", href="data:,"),
    element("link", rel="stylesheet", href="/style.css"),
    element("script", Markup(""), src="/script.js", defer=True),
)


def address_of(run: str, part: str = "", **query: object) -> str:
    """Return the address of a run's page, or of a part of it; None and "" are left out of the query."""
    path = f"/runs/{quote(run, safe='')}{f'/{part}' if part else ''}"
    return with_query(path, query)


def with_query(path: str, query: Mapping[str, object]) -> str:
    """Return an address with a query; None and "" are left out."""
    known = given(**query)
    return f"{path}?{urlencode(known)}" if known else path


def given(**query: object) -> dict[str, str]:
    """Return a query as text, without None and ""."""
    return {key: str(value) for key, value in query.items() if value not in {None, ""}}


def text_of(window: Window) -> str:
    """Return a window of steps as addresses have it: `100:200`, `100:`, `:200`; "" for all."""
    return "" if window == ALL else ":".join("" if step is None else str(step) for step in window)


def tensor_address(run: str, tensor: str, step: int | None = None) -> str:
    """Return the address of a tensor's page: around a step, if one is given."""
    steps = "" if step is None else text_of((max(0, step - AROUND), step + AROUND))
    return address_of(run, "tensor", name=tensor, steps=steps)


def way_back(run: str = "") -> Markup:
    """Return the links to the list of runs, and to the page of a run."""
    links = [element("a", "All runs", href="/")]
    if run:
        links.append(element("a", run, href=address_of(run)))
    return element("nav", links, aria_label="Way back")


def choice_of_steps(
    action: str,
    hidden: Mapping[str, str] | Sequence[tuple[str, str]],
    window: Window,
    shown: tuple[int, int] | None,
    look: Look | None = None,
) -> Markup | None:
    """Return a form for the steps to show and the look of curves; the script lets one draw over a curve instead."""
    if shown is None:
        return None
    kept = [*(hidden.items() if isinstance(hidden, Mapping) else hidden)]
    all_steps = urlencode([*kept, *given(**(look.query if look else {})).items()])
    first, last = ("" if step is None else str(step) for step in window)
    address = f"{action}?{all_steps}" if all_steps else action
    everything = element("a", "All steps", href=address) if window != ALL else None
    return element(
        "form",
        *(element("input", type="hidden", name=name, value=value) for name, value in kept),
        element("label", "Steps ", element("input", name="from", value=first, placeholder=str(shown[0]), size=8)),
        element("label", " to ", element("input", name="to", value=last, placeholder=str(shown[1]), size=8)),
        " ",
        _choices_of_look(look) if look else None,
        element("button", "Show"),
        " ",
        everything,
        action=action,
        class_="steps",
    )


def choice_of_layers(address: str, view: Mapping[str, str], chosen: LayerChoice, count: int) -> Markup:
    """Return the search for layers by name, and the pages of those that it finds.

    Args:
        address: Address of the page of the run.
        view: What else stands in its query.
        chosen: The choice.
        count: Number of layers that it finds.
    """
    pages = max(1, -(-count // MOST_ROWS))
    here = min(chosen.page, pages)
    near = sorted({1, pages, *range(max(1, here - 2), min(pages, here + 2) + 1)})
    links = [
        element(
            "a",
            str(page),
            href=f"{with_query(address, {**view, **LayerChoice(chosen.wanted, page).query})}#layers",
            aria_current="page" if page == here else None,
        )
        for page in near
    ]
    everything = element("a", "All layers", href=f"{with_query(address, view)}#layers") if chosen.wanted else None
    search = element(
        "form",
        *(element("input", type="hidden", name=name, value=value) for name, value in view.items()),
        element("label", "Name holds ", element("input", type="search", name="layer", value=chosen.wanted)),
        element("button", "Show"),
        everything,
        action=address,
        role="search",
        aria_label="Layers",
        class_="filter",
    )
    numbers = element("nav", "Page", links, aria_label="Pages of layers") if pages > 1 else None
    return element("div", search, numbers, class_="layer-choice")


def _choices_of_look(look: Look) -> Markup:
    smooth = {str(points or ""): word for points, word in SMOOTHINGS.items()}
    return joined(
        element("label", "Scale ", _choice("scale", SCALES, look.scale)),
        " ",
        element("label", "Smooth ", _choice("smooth", smooth, look.query["smooth"])),
        " ",
    )


def _choice(name: str, words: Mapping[str, str], chosen: str) -> Markup:
    options = [element("option", word, value=value, selected=value == chosen) for value, word in words.items()]
    return element("select", options, name=name)


def choice_of_axis(other: str, *, is_by_time: bool, is_known: bool) -> Markup:
    """Return the way to the same page over the other axis, at the address `other`."""
    link = element("a", "by steps" if is_by_time else "by time", href=other, class_="axis-choice")
    if not is_by_time:
        return element("p", "Charts are drawn by steps; draw them ", link, ".", class_="note")
    here = "Charts are drawn by time" if is_known else "The moments of these steps are not known"
    return element("p", f"{here}; draw them ", link, ".", class_="note")


def page_with(title: str, *body: Markup, events: str | None = None) -> str:
    """Return a page of the dashboard. `events`: address of its stream of changes."""
    state = element("p", role="status", class_="live", data_events=events) if events else None
    return document_of(title, *(part for part in (*body, _footer(), state) if part is not None), head=_HEAD)


def parts_around(title: str) -> tuple[str, str]:
    """Return what stands before and behind the content of a page of the dashboard."""
    before, mark, after = document_of(title, head=_HEAD).partition("<body>")
    return before + mark, after


def _footer() -> Markup:
    return element("footer", f"Trackside {__version__}. This server changes nothing; it reads the runs.")
