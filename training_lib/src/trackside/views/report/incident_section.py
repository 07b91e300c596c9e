"""The report's section on how each problem began: its signals as small curves, in the order in which they left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from trackside.contracts.run.recorded_names import plain_name
from trackside.contracts.run_layout import RULE_OUTPUT, SKIP_LIST_KEY
from trackside.evaluation.sinks.skip_list import batches_of
from trackside.runs.problem_text import what_of
from trackside.views.report.charts.line_chart import number
from trackside.views.report.charts.markup import Markup, element, joined
from trackside.views.report.incident import Incident, Signal
from trackside.views.report.model.figures import folded, table

MOST_SIGNALS = 12
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BOTTOM = 960, 300, 90, 34, 8, 22
_LONGEST_NAME = 44
_SKIP_LIST = element("code", f"{RULE_OUTPUT}/{SKIP_LIST_KEY}")
_WORDS = {
    "mean": "",
    "l2": "norm",
    "nonfinite_count": "numbers that are not finite",
    "zero_share": "share of zeros",
    "update_ratio": "relative update",
}


def anchor_of(place: int) -> str:
    """Return the anchor of an incident by its place, from 0."""
    return f"incident-{place + 1}"


def incident_section(found: Sequence[Incident]) -> Markup:
    """Return the articles of all incidents."""
    note = (
        "A signal is compared with the straight line through its own numbers before the problem. What left its line "
        "first is nearest to the cause; what followed is most often its effect."
    )
    return joined(
        element("p", note, class_="note"),
        *(
            element(
                "article", element("h3", one.group.lead.configuration_name), *incident_parts(one), id=anchor_of(place)
            )
            for place, one in enumerate(found)
        ),
    )


def incident_parts(incident: Incident) -> Iterator[Markup]:
    """Yield sentence, curves, batches and the way back of one incident."""
    yield element("p", what_of(incident.group.lead))
    yield element("p", sentence_of(incident), class_="began")
    shown = incident.signals[:MOST_SIGNALS]
    if shown:
        yield _drawing(incident, shown)
        yield folded("These signals as a table", table(("Signal", "Left at", "From", "To"), list(map(_row, shown))))
    rest = len(incident.signals) - len(shown)
    if incident.signals:
        more = f"{rest} more signals left later; " if rest else ""
        yield element(
            "p",
            f"{more}{incident.stayed} more stayed at {'its' if incident.stayed == 1 else 'their'} baseline.",
            class_="note",
        )
    if incident.batches:
        yield _batches(incident)
    yield element("p", way_back(incident))
    skipped = batches_to_skip(incident)
    if skipped:
        yield element(
            "p", f"If its data are to blame: leave out {skipped} of the pass. They stand in ", _SKIP_LIST, "."
        )


def batches_to_skip(incident: Incident) -> str:
    """Return the batches that its findings blame, in words: `batches 59 to 66`; "" for none."""
    found = [batches for issue in incident.group.standing if (batches := batches_of(issue))]
    spans = [f"{one[0]:,}" if len(one) == 1 else f"{one[0]:,} to {one[-1]:,}" for one in found]
    one_only = len(found) == 1 and len(found[0]) == 1
    return f"batch{'' if one_only else 'es'} {', '.join(dict.fromkeys(spans))}" if found else ""


def sentence_of(incident: Incident) -> str:
    """Return how the problem began, in a sentence."""
    if incident.young:
        return (
            f"{_subject(incident)} holds from step {incident.since:,} on, before any signal had a baseline: it was in "
            "the run from the start. Look at data, settings and first weights, not at an event."
        )
    if not incident.signals:
        since = f"{_subject(incident)} holds from step {incident.since:,} on."
        return f"{since} No recorded signal left its own baseline before or with it."
    first = incident.signals[0]
    together = [signal for signal in incident.signals[1:] if signal.left == first.left]
    others = f", and {len(together)} more with it" if together else ""
    return (
        f"First to leave its baseline: {name_of(first)}, at {_steps(first)}{others}. The finding holds from step "
        f"{incident.since:,} on."
    )


def _subject(incident: Incident) -> str:
    """Return the subject of a sentence on the first step of a problem: its first issue, if the card has another."""
    first = min(incident.group.issues, key=lambda issue: issue.since_step)
    is_lead = first.configuration_name == incident.group.lead.configuration_name
    return "It" if is_lead else f"Its first issue, {first.configuration_name},"


def way_back(incident: Incident) -> str:
    """Return the checkpoint to go back to, in a sentence."""
    at = incident.first_left
    if at == 0 or incident.young:
        return "No step before it is sound: start anew once the cause is gone."
    saved = f" This run saved whole weights at step {incident.saved:,}." if incident.saved is not None else ""
    if incident.written is not None:
        return f"Go back to the checkpoint of step {incident.written.step:,}: {incident.written.path}.{saved}"
    return f"Go back to a checkpoint of step {at - 1:,} or before.{saved}"


def name_of(signal: Signal) -> str:
    """Return the signal in words: `gradient/fc.weight, norm`."""
    word = statistic_words(signal.statistic)
    return f"{plain_name(signal.name)}, {word}" if word else plain_name(signal.name)


def statistic_words(statistic: str) -> str:
    """Return a statistic in words; "" for the mean of what is one number anyway."""
    return _WORDS.get(statistic, statistic)


def _steps(signal: Signal) -> str:
    first, last = signal.left or (0, 0)
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


def _row(signal: Signal) -> tuple[str, ...]:
    after = "not finite" if math.isnan(signal.after) else number(signal.after)
    return name_of(signal), _steps(signal), number(signal.before), after


def _drawing(incident: Incident, shown: Sequence[Signal]) -> Markup:
    height = _TOP + _ROW * len(shown) + _BOTTOM
    first, last = incident.steps

    def x(step: float) -> float:
        share = (step - first) / max(1, last - first)
        return round(_LEFT + min(1.0, max(0.0, share)) * (_WIDTH - _LEFT - _RIGHT), 1)

    since = element(
        "line",
        element("title", f"the finding holds from step {incident.since:,} on"),
        x1=x(incident.since),
        x2=x(incident.since),
        y1=_TOP,
        y2=height - _BOTTOM,
        class_="since",
    )
    rows = [_signal_row(signal, _TOP + _ROW * place, x) for place, signal in enumerate(shown)]
    labels = [
        element("text", f"{step:,}", x=x(step), y=height - 6, text_anchor=side)
        for step, side in ((first, "start"), (last, "end"))
    ]
    return element(
        "figure",
        element(
            "svg",
            element("title", sentence_of(incident)),
            since,
            *rows,
            *labels,
            viewBox=f"0 0 {_WIDTH} {height}",
            role="img",
            class_="drawing incident",
        ),
        element(
            "figcaption",
            "Each signal on a scale of its own; ● where it left its baseline; the line: the finding holds.",
        ),
    )


def _signal_row(signal: Signal, top: float, at: Callable[[float], float]) -> Markup:
    logs = signal.values
    finite = logs[np.isfinite(logs)]
    if len(finite) and bool((finite > 0).all()):
        with np.errstate(all="ignore"):
            logs = np.log10(logs)
        finite = logs[np.isfinite(logs)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)

    def y(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(top + _ROW - 5 - share * (_ROW - 10), 1)

    pairs = list(zip(signal.steps.tolist(), logs.tolist(), strict=True))
    points = [f"{at(step)},{y(value)}" for step, value in pairs if math.isfinite(value)]
    left = (signal.left or (0, 0))[0]
    height = next((y(value) for step, value in pairs if step >= left and math.isfinite(value)), top + _ROW / 2)
    name = name_of(signal)
    short = name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME + 1 :]}"
    broken = "broken-dot" if math.isnan(signal.after) else "left-dot"
    return element(
        "g",
        element("title", f"{name}: {' '.join(_row(signal)[1:])}"),
        element("line", x1=0, x2=_WIDTH, y1=top + _ROW, y2=top + _ROW, class_="grid"),
        element("text", short, x=_LEFT - 10, y=top + _ROW / 2 + 4, text_anchor="end"),
        element("polyline", points=" ".join(points), class_="line"),
        element("circle", cx=at(left), cy=height, r=4.5, class_=broken),
        element("text", f"{left:,}", x=_WIDTH - 6, y=top + _ROW / 2 + 4, text_anchor="end", class_="axis-name"),
    )


def _batches(incident: Incident) -> Markup:
    """Return the batches around the first departure, with the columns that were recorded."""

    def word(value: int | None) -> str:
        return "unknown" if value is None else f"{value:,}"

    known = [place for place in (1, 2, 3) if any(batch[place] is not None for batch in incident.batches)]
    rows = [
        (f"{batch[0]:,}{' ●' if batch[0] == incident.first_left else ''}", *(word(batch[place]) for place in known))
        for batch in incident.batches
    ]
    head = ("Step", "Pass over the data", "Batch in it", "Fingerprint")
    equal = "; equal fingerprints are equal batches" if 3 in known else ""
    caption = f"Batches around the first departure{equal}"
    return table(("Step", *(head[place] for place in known)), rows, caption)
