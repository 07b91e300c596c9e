"""The pages of a run's tensors: all of them, and one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.verdict import Finding
from trackside.views.dashboard.expression import FUNCTIONS, MOST_LETTERS
from trackside.views.dashboard.shell import (
    TIME,
    address_of,
    choice_of_axis,
    choice_of_steps,
    given,
    page_with,
    tensor_address,
    text_of,
    way_back,
)
from trackside.views.dashboard.tensor_tree import Branch, marked_branches, tree_of
from trackside.views.dashboard.tensors import SHOWN, WORDS, SmallCurve, TensorCurves
from trackside.views.dashboard.watched import Window
from trackside.views.report.charts.line_chart import Span, line_chart, number, small_chart
from trackside.views.report.charts.look import AS_IT_FITS, Look
from trackside.views.report.charts.markup import Markup, element, joined
from trackside.views.report.charts.wall_time import WallTime
from trackside.views.report.distribution import Distribution
from trackside.views.report.distribution_figure import distribution_figure
from trackside.views.report.model.figures import folded

MOST_CURVES = 300  # of a page
MOST_OPEN = 60  # tensors up to which the whole tree is unfolded


@dataclass(frozen=True, eq=False)
class TensorList:
    """Tensors of a run, chosen by a text in their names.

    wanted     that text
    found      number of tensors with such a name
    names      the first of them, in the order of the model
    statistic  the statistic of the small curves
    curves     small curve of each tensor by its name, where it has numbers
    steps      first and last step of the curves
    spans      steps of issues about a tensor, by its name
    """

    wanted: str
    found: int
    names: Sequence[str]
    statistic: str
    curves: Mapping[str, SmallCurve]
    steps: tuple[int, int]
    spans: Mapping[str, Sequence[Span]]


@dataclass(frozen=True, eq=False)
class Computed:
    """An expression: its text, and its curves or the reason why it has none."""

    text: str
    result: TensorCurves | ConfigurationError


def tensors_page(run: str, listed: TensorList) -> str:
    """Return the page that shows the tensors of a run as a tree, each with a small curve."""
    options = [element("option", WORDS.get(one, one), value=one, selected=one == listed.statistic) for one in SHOWN]
    search = element(
        "form",
        element("label", "Name holds ", element("input", type="search", name="q", value=listed.wanted)),
        element("label", "Curves of ", element("select", options, name="of")),
        element("button", "Show"),
        element("a", "All tensors", href=address_of(run, "tensors", of=listed.statistic)) if listed.wanted else None,
        role="search",
        class_="filter",
    )
    tree = tree_of(listed.names)
    more = listed.found - len(listed.names)
    return page_with(
        f"{run}: tensors",
        element("header", way_back(run), element("h1", "Tensors"), search),
        element(
            "main",
            element("p", _note(listed), class_="note") if listed.names else None,
            _branch(run, listed, tree, marked_branches(tree, listed.spans), is_small=len(listed.names) <= MOST_OPEN),
            None if listed.names else element("p", "No tensor was recorded with such a name."),
            element("p", f"{more:,} more: search for a part of the name.", class_="note") if more else None,
        ),
    )


def _note(listed: TensorList) -> str:
    first, last = listed.steps
    words = (
        f"{listed.found:,} tensor{'s' * (listed.found != 1)}, steps {first:,} to {last:,}, in the order of the model. "
        "Each curve has a scale of its own; ● is named by a finding, whose steps are shaded; magenta: not finite."
    )
    without = sum(name not in listed.curves for name in listed.names)
    if not without:
        return words
    return f"{words} {without:,} have no curve: they have no numbers, or stand behind the first {MOST_CURVES}."


def _branch(run: str, listed: TensorList, branch: Branch, marked: frozenset[str], *, is_small: bool) -> Markup:
    cards = [_card(run, listed, name, rest) for name, rest in branch.tensors]
    below = [
        element(
            "details",
            element(
                "summary",
                element("span", "● ", class_="mark") if one.path in marked else None,
                element("code", one.words),
                f" {one.count():,}",
            ),
            element("a", "Only these", href=address_of(run, "tensors", q=one.path, of=listed.statistic), class_="only"),
            _branch(run, listed, one, marked, is_small=is_small),
            open=is_small or one.path in marked,
            class_="branch",
        )
        for one in branch.branches.values()
    ]
    return joined(element("ul", cards, class_="small-multiples") if cards else None, below)


def _card(run: str, listed: TensorList, name: str, rest: str) -> Markup:
    curve, spans = listed.curves.get(name), listed.spans.get(name, ())
    since = spans[0].first if spans else None
    link = element("a", rest or name, href=tensor_address(run, name, since), title=name)
    mark = element("span", "● ", class_="mark") if spans else None
    if curve is None:
        return element("li", mark, link)
    ends = [number(float(value)) for value in (curve.numbers.mean[0], curve.numbers.mean[-1])]
    words = f"{curve.statistic}: {ends[0]} → {ends[1]}"
    drawing = small_chart(f"{name}, {curve.statistic}", curve.numbers, steps=listed.steps, spans=spans)
    return element("li", mark, link, drawing, element("small", words))


def tensor_page(
    run: str,
    tensor: str,
    found: TensorCurves | None,
    *,
    window: Window,
    axis: str,
    clock: WallTime | None,
    spans: Sequence[Span],
    findings: Sequence[Finding],
    values: Distribution | None,
    expression: Computed | None,
    look: Look = AS_IT_FITS,
) -> str:
    """Return the page of one tensor: each of its statistics over the steps, for each process, and its values.

    Args:
        run: Name of the run.
        tensor: Name of the tensor.
        found: Its statistics.
        window: The chosen steps.
        axis: `TIME` or "".
        clock: The moments of the steps, for `TIME`, if they are known.
        spans: Steps of issues about the tensor.
        findings: Findings of standing issues about it.
        values: Its values over steps.
        expression: A text and its curves, if one was asked for.
        look: The look of the curves.
    """
    steps = found.steps if found else None
    spans = [span for span in spans if steps and span.last >= steps[0] and span.first <= steps[1]]
    curves = found.curves if found else ()
    charts = [
        line_chart(title, numbers, steps=steps, spans=spans, clock=clock, look=look)
        for title, numbers in curves
        if steps
    ]
    issues = dict.fromkeys(f"{span.name} since step {span.first:,} ({span.severity})" for span in spans)
    note = f"Shaded: {', '.join(issues)}." if issues else None
    kept = given(name=tensor, expression=expression.text if expression else "")
    return page_with(
        f"{run}: {tensor}",
        element(
            "header",
            way_back(run),
            element("h1", tensor),
            [element("p", text, class_="found") for text in dict.fromkeys(_observed(one) for one in findings)],
            element("p", note, class_="note") if note else None,
            element(
                "div",
                choice_of_steps(address_of(run, "tensor"), {**given(axis=axis), **kept}, window, steps, look),
                choice_of_axis(
                    address_of(run, "tensor", **kept, steps=text_of(window), axis="" if axis else TIME, **look.query),
                    is_by_time=bool(axis),
                    is_known=clock is not None,
                ),
                element(
                    "a",
                    "Between two steps",
                    href=address_of(run, "difference", steps=text_of(window), name=tensor),
                ),
                class_="bar",
            ),
        ),
        element(
            "main",
            _expression(
                run,
                {**kept, **given(steps=text_of(window), axis=axis, **look.query)},
                expression,
                spans,
                clock=clock,
                look=look,
            ),
            charts or element("p", "No number of this tensor was recorded at these steps."),
            element("section", element("h2", "Distribution"), distribution_figure(values, clock=clock))
            if values
            else None,
        ),
    )


def _expression(
    run: str,
    kept: Mapping[str, str],
    computed: Computed | None,
    spans: Sequence[Span],
    *,
    clock: WallTime | None,
    look: Look,
) -> Markup:
    """Return the field for an expression, with the curves or the mistake of the one that stands in it."""
    text = computed.text if computed else ""
    result = computed.result if computed else None
    hidden = [element("input", type="hidden", name=key, value=kept[key]) for key in kept if key != "expression"]
    field = element(
        "input", name="expression", value=text, size=36, maxlength=MOST_LETTERS, placeholder="l2 / moving_mean(l2, 20)"
    )
    without = given(**{**kept, "expression": ""})
    form = element(
        "form",
        hidden,
        element("label", "Compute ", field),
        element("button", "Draw"),
        element("a", "Without it", href=address_of(run, "tensor", **without)) if text else None,
        action=address_of(run, "tensor"),
        class_="filter",
    )
    words = joined(
        "From statistics of this tensor or of others, named in quotes: ",
        element("code", 'log10("gradient/fc.weight" / "fc.weight")'),
        f". Functions: {', '.join(FUNCTIONS)}.",
    )
    if isinstance(result, ConfigurationError):
        mistakes = [element("p", str(problem), class_="found", role="alert") for problem in result.problems]
        return joined(form, mistakes, element("p", words, class_="note"))
    if result is None:
        return folded("Compute from statistics", joined(form, element("p", words, class_="note")))
    charts = [
        line_chart(title, some, steps=result.steps, spans=spans, clock=clock, look=look)
        for title, some in result.curves
    ]
    return joined(form, charts)


def _observed(one: Finding) -> str:
    return f"Observed at step {one.step:,}: {one.comparison}; since step {one.since_step:,}."
