"""The report as one HTML page: complete without a script, without a network, on paper."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources

from trackside import __version__
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.observation import is_recorded_number
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.recorded_names import plain_name
from trackside.contracts.verdict import Severity
from trackside.runs.command_end import ending_of
from trackside.runs.problem_text import CODE, fixes_of, rows_of, title_of, what_of
from trackside.runs.rule_state import RuleState, RuleStatus
from trackside.runs.source_text import SourceText
from trackside.views.comparing.comparison import NO_SCRIPT
from trackside.views.report.changes_section import changes_section
from trackside.views.report.charts.heatmap import heatmap_figure
from trackside.views.report.charts.line_chart import line_chart
from trackside.views.report.charts.look import AS_IT_FITS, Look
from trackside.views.report.charts.markup import Child, Markup, element, joined
from trackside.views.report.distribution_figure import distribution_figure
from trackside.views.report.fine_tuning import SHARES
from trackside.views.report.gathered import ReportData
from trackside.views.report.incident_section import anchor_of, incident_section
from trackside.views.report.model.section import model_section
from trackside.views.report.rescue_section import rescue_section
from trackside.views.report.speed import speed_section

MOST_EVIDENCE = 4  # tensors of a finding that are linked

TITLES = {  # of each section, by its anchor
    "findings": "Findings",
    "changes": "What changed here",
    "rescue": "Rescue",
    "incidents": "How it began",
    "training": "Training",
    "fine-tuning": "Fine-tuning",
    "model": "Model",
    "speed": "Where the time went",
    "machine": "The machine",
    "layers": "Layers over steps",
    "experts": "Experts over steps",
    "distributions": "Distributions",
    "rules": "Rules",
    "run": "Run",
    "method": "Method",
}

_SIGNS = {
    RuleState.ISSUE: ("✖", "critical"),
    RuleState.ERROR: ("⚠", "error"),
    RuleState.RECOVERED: ("✔", "ok"),
    RuleState.NOT_ENOUGH_DATA: ("◌", "unknown"),
    RuleState.RUNNING: ("▶", "unknown"),
    RuleState.OK: ("✔", "ok"),
    RuleState.NOT_APPLICABLE: ("–", "unknown"),
}


@dataclass(frozen=True)
class Links:
    """Addresses to which a page of a server leads; the report in a file has none.

    tensor   address of a tensor, by its name and the step to look at
    incident  address of the page on how a problem began, by the problem's id
    above    what stands above the name of the run
    below    what stands below its numbers
    layers   what stands above the pictures of layers
    """

    tensor: Callable[[str, int | None], str]
    incident: Callable[[str], str]
    above: Markup
    below: Markup
    layers: Markup


def page_of(data: ReportData) -> str:
    """Return the report as an HTML document."""
    style, script = part("report.css"), part("report.js")
    policy = (
        f"default-src 'none'; script-src '{source_of(script)}'; style-src '{source_of(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("style", Markup(style)),
    )
    footer = f"Trackside {__version__}. This page needs no network and sends nothing."
    return document_of(
        f"{data.recorded.location.name}: Trackside report",
        *content_of(data),
        element("footer", footer),
        element("script", Markup(script)),
        head=head,
    )


def document_of(title: str, /, *body: Markup, head: Sequence[Markup] = ()) -> str:
    """Return an HTML document.

    Args:
        title: Its title.
        body: Its content; a part with the id `findings` is what the first link leads to.
        head: What else its head holds.
    """
    whole = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        *head,
    )
    return f"<!DOCTYPE html>\n{element('html', whole, element('body', *body), lang='en')}\n"


def content_of(data: ReportData, links: Links | None = None, look: Look = AS_IT_FITS) -> tuple[Markup, ...]:
    """Return the content of a page about a run: a link for the keyboard, the header, and the sections."""
    sections = dict(_sections(data, links, look))
    return (
        element("a", "Skip to the findings", href="#findings", class_="skip"),
        element("header", _heading(data, links, tuple(sections))),
        element("main", (_section(anchor, content) for anchor, content in sections.items())),
    )


def _sections(data: ReportData, links: Links | None, look: Look) -> Iterator[tuple[str, Markup]]:
    """Return the anchor and the content of each section that this run has, in order."""
    yield "findings", _findings(data, links)
    if links and data.is_window:
        yield "changes", changes_section(data.changes, links.tensor)
    if data.recorded.rescue is not None:
        yield "rescue", rescue_section(data.recorded.rescue)
    if data.incidents:
        yield "incidents", incident_section(data.incidents)
    yield "training", _training(data, look)
    if data.fine_tuning:
        yield "fine-tuning", _fine_tuning(data, look)
    if data.model is not None:
        yield "model", model_section(data.model)
    yield "speed", speed_section(data.speed)
    yield "machine", _machine(data, look)
    yield "layers", _layers(data, links)
    if data.routing:
        yield "experts", _experts(data)
    yield "distributions", _distributions(data)
    yield "rules", _rules(data)
    yield "run", _run(data)
    yield "method", _method(data)


def _section(anchor: str, content: Markup) -> Markup:
    title = TITLES[anchor]
    return element(
        "section", element("h2", title, id=f"{anchor}-title"), content, id=anchor, aria_labelledby=f"{anchor}-title"
    )


def _heading(data: ReportData, links: Links | None, anchors: tuple[str, ...]) -> Markup:
    worst = max((g.severity for g in data.problems if g.standing), key=lambda severity: severity.rank, default=None)
    looks = worst.value if worst else "ok" if data.recorded.judged.is_well else "unknown"
    numbers = [element("div", element("dt", label), element("dd", value)) for label, value in key_numbers(data)]
    return joined(
        links.above if links else None,
        element("p", f"Trackside{'' if links else ' report'} · {data.live.state.value}", class_="kicker"),
        element("h1", data.recorded.location.name),
        element("p", verdict_of(data), class_=f"verdict {looks}"),
        element(
            "nav",
            element("span", "On this page", class_="nav-word"),
            element("span", [element("a", TITLES[each], href=f"#{each}") for each in anchors], class_="nav-links"),
            aria_label="Sections",
            class_="named",
        ),
        element("dl", numbers, class_="numbers"),
        links.below if links else None,
    )


def verdict_of(data: ReportData) -> str:
    """Return the report's first sentence: the gravest problem that stands, or that none does, or why nobody knows."""
    standing = [group for group in data.problems if group.standing]
    judged, steps = data.recorded.judged, data.live.step + 1
    if standing:
        lead, more = standing[0], len(standing) - 1
        others = f" {more} more problem{'s' * (more != 1)} below." if more else ""
        finding = lead.lead.lead
        where = f", in {finding.subject}" if finding is not None and not is_recorded_number(finding.subject) else ""
        besides = f" {sentence(judged.reservation)}" if judged.reservation else ""
        return f"✖ {what_of(lead.lead)} Since step {lead.lead.since_step}{where}.{others}{besides}"
    recovered = f"{len(data.problems)} recovered" if data.problems else ""
    rescued = data.recorded.rescue.sentence() if data.recorded.rescue is not None else ""
    clauses = (
        judged.headline(steps, rested=data.live.rested),
        *judged.learning.clauses,
        recovered,
        f"{rescued[:1].lower()}{rescued[1:]}",
        judged.others,
    )
    return f"{'✔' if judged.is_well else '◌'} {sentence('; '.join(filter(None, clauses)))}"


def sentence(clause: str) -> str:
    """Return a clause as a sentence."""
    return f"{clause[:1].upper()}{clause[1:]}."


def key_numbers(data: ReportData) -> Iterator[tuple[str, str]]:
    """Yield (label, number) of what is asked first about a run."""
    live = data.live
    loss = live.losses[0].newest if live.losses else None
    yield "steps", f"{live.step + 1:,}" if live.step >= 0 else "none"
    if live.skipped:
        yield "skipped steps", f"{live.skipped:,}"
    yield "last loss", "unknown" if loss is None else f"{loss:.4g}"
    yield "steps a second", "unknown" if live.steps_per_second is None else f"{live.steps_per_second:.3g}"
    yield "time of the steps", "unknown" if live.seconds is None else duration(live.seconds)
    yield "problems", f"{sum(bool(group.standing) for group in data.problems)}"


def duration(seconds: float) -> str:
    """Return a time in words: `2 h 3 min`, `4 min 5 s`, `6.7 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _findings(data: ReportData, links: Links | None) -> Markup:
    if not data.problems:
        judged = data.recorded.judged
        return element("p", "No rule found an issue." if judged.is_well else sentence(judged.reservation))
    began = {incident.group.group: anchor_of(place) for place, incident in enumerate(data.incidents)}
    sources = SourceText(data.recorded.location.uri)
    return joined(_card(group, links, began.get(group.group, ""), sources) for group in data.problems)


def _card(group: IssueGroup, links: Links | None, began: str, sources: SourceText) -> Markup:
    severity = group.severity.value if group.standing else "ok"
    rows = [
        element("tr", _row_head(label), element("td", element("code", text) if label == CODE else text))
        for label, text in rows_of(group, sources)
    ]
    fixes = [element("li", fix) for fix in fixes_of(group)]
    code = built_in_catalogue().code_of(group.lead.rule_id)
    return element(
        "article",
        element("h3", title_of(group)),
        element("p", what_of(group.lead)),
        _evidence(group, links) if links else None,  # before the rows: their number differs, and the way on is seen
        element("table", element("tbody", rows), class_="facts"),
        _way_to_incident(group, links, began) if began else None,
        joined(element("h4", "What to do"), element("ol", fixes)) if fixes else None,
        element("p", f"{code}: ", element("code", f"trackside rules show {group.lead.rule_id}")) if code else None,
        class_=f"card {severity}",
    )


def _way_to_incident(group: IssueGroup, links: Links | None, anchor: str) -> Markup:
    address = links.incident(group.group) if links else f"#{anchor}"
    return element("p", element("a", "How it began: its signals in order", href=address))


def _evidence(group: IssueGroup, links: Links) -> Markup | None:
    """Return links to the tensors that the issues name, each at the step from which its issue holds."""
    issues = (group.lead, *group.symptoms)
    of_each = [(issue.lead.subject, issue.since_step) for issue in issues if issue.lead is not None]
    of_lead = [(finding.subject, group.lead.since_step) for finding in group.lead.findings]
    names: dict[str, int] = {}
    for name, step in (*of_each, *of_lead):
        names.setdefault(name, step)
    if not names:
        return None
    shown = (
        element("li", element("a", plain_name(name), href=links.tensor(name, step)), f" around step {step:,}")
        for name, step in list(names.items())[:MOST_EVIDENCE]
    )
    return joined(element("h4", "Evidence"), element("ul", shown, class_="evidence"))


def _row_head(label: str) -> Markup:
    return element("th", label, scope="row") if label else element("td")


def _training(data: ReportData, look: Look) -> Markup:
    if not data.charts or data.steps is None:
        return element("p", "Nothing was recorded at any step: no loss, no learning rate, no gradient.")
    legend = "Shaded: the steps of a problem. A band shows least and most where a point stands for several steps."
    charts = [
        line_chart(title, found, steps=data.steps, spans=data.spans, clock=data.wall_time, look=look)
        for title, found in data.charts
    ]
    return joined(element("p", legend, class_="note"), charts)


def _fine_tuning(data: ReportData, look: Look) -> Markup:
    charts = [
        line_chart(
            title,
            found,
            steps=data.steps or (0, 0),
            spans=data.spans,
            shown=(0.0, 1.0) if title in SHARES else (),
            clock=data.wall_time,
            look=look,
        )
        for title, found in data.fine_tuning
    ]
    note = "As the trainer or the script logged them. Groups are the answers to one prompt."
    return joined(element("p", note, class_="note"), charts)


def _machine(data: ReportData, look: Look) -> Markup:
    if not data.machine or data.steps is None:
        return element(
            "p",
            "No sample of the machine was recorded. ",
            element("code", "trackside run"),
            " takes two a second, the first one a moment after the start: a training of a second or two may have none.",
        )
    charts = [
        line_chart(
            title,
            found,
            steps=data.steps,
            spans=data.spans,
            shown=(0.0, 100.0) if "in use, %" in title else (0.0,),
            clock=data.wall_time,
            look=look,
        )
        for title, found in data.machine
    ]
    note = "Samples of the machine, each at the step that was being made."
    first = len(data.heatmaps) + len(data.routing)
    cores = [
        heatmap_figure(found, number_of=first + place, clock=data.wall_time) for place, found in enumerate(data.cores)
    ]
    words = "A row is a core, or neighbours of which it shows the busiest; a cell shows the largest use at its steps."
    return joined(
        element("p", note, class_="note"), charts, element("p", words, class_="note") if cores else None, cores
    )


def _layers(data: ReportData, links: Links | None) -> Markup:
    if not data.heatmaps and data.layers.wanted:
        nothing = element("p", "No gradient or weight has a number and such a name.")
        return joined(links.layers if links else None, nothing)
    if not data.heatmaps:
        return element(
            "p",
            "No statistics of gradients or weights were recorded. They are on by default in ",
            element("code", "trackside run"),
            ".",
        )
    note = (
        "A row is a tensor, in the order of the model; ● is named by a finding, and stands first. A cell shows the "
        "largest number of its steps."
    )
    if not links and any(one.left_out for one in data.heatmaps):
        note += " The other rows are in trackside serve."
    address = (lambda name: links.tensor(name, None)) if links else None
    maps = [
        heatmap_figure(found, number_of=place, marked=tuple(data.named_tensors), address=address, clock=data.wall_time)
        for place, found in enumerate(data.heatmaps)
    ]
    return joined(element("p", note, class_="note"), links.layers if links else None, maps)


def _experts(data: ReportData) -> Markup:
    note = (
        "A row is an expert; bright: it has most of its layer's gradient. Dark: the router seldom chooses it, or never."
    )
    first = len(data.heatmaps)
    maps = [
        heatmap_figure(found, number_of=first + place, clock=data.wall_time) for place, found in enumerate(data.routing)
    ]
    return joined(element("p", note, class_="note"), maps)


def _distributions(data: ReportData) -> Markup:
    if not data.distributions:
        return element(
            "p",
            "No value of a weight or a gradient was saved. ",
            element("code", "trackside run --save weights=100 -- ..."),
            " saves them.",
        )
    note = (
        "Of the tensors that findings name, then of others with saved values. Bands: half of the values, nine "
        "tenths, all of them."
    )
    saved = [distribution_figure(one, clock=data.wall_time) for one in data.distributions if len(one.steps)]
    sizes = [distribution_figure(one) for one in data.distributions if not len(one.steps)]
    hint = joined(
        "Without saved values: sizes that are recorded anyway. ",
        element("code", "trackside run --save weights=100 -- ..."),
        " saves values.",
    )
    return joined(
        element("p", note, class_="note"),
        saved,
        (element("p", hint, class_="note"), element("div", sizes, class_="side-by-side")) if sizes else None,
    )


def _rules(data: ReportData) -> Markup:
    if not data.rules:
        return element("p", sentence(data.recorded.judged.not_judged))
    in_order = sorted(data.rules, key=lambda rule: list(_SIGNS).index(rule.state))
    rows = [_rule_row(rule) for rule in in_order]
    head = element("tr", *(element("th", word, scope="col") for word in ("State", "Rule", "Steps", "Reason")))
    return element("table", element("thead", head), element("tbody", rows), class_="rules")


def _rule_row(rule: RuleStatus) -> Markup:
    sign, looks = _SIGNS[rule.state]
    if rule.state is RuleState.ISSUE and rule.verdict is not None and rule.verdict.severity is not Severity.CRITICAL:
        sign, looks = "▲", rule.verdict.severity.value
    return element(
        "tr",
        element("td", element("span", f"{sign} {rule.state.value}", class_=f"state {looks}")),
        element("td", rule.name),
        element("td", f"{rule.judged:,}", class_="count"),
        element("td", rule.detail),
    )


def _run(data: ReportData) -> Markup:
    rows: list[tuple[str, Child]] = [("Location", element("code", data.recorded.location.uri))]
    if data.record is not None:
        rows.append(("Command", element("code", shlex.join(data.record.command))))
        if data.record.started_at:
            rows.append(("Started", moment(data.record.started_at)))
    rows.append(("State", _state(data)))
    rows.append(("Processes", f"{len(data.workers)}: {', '.join(data.workers[:8])}" if data.workers else "unknown"))
    facts = data.facts
    if facts is not None:
        script = facts.program.script
        rows.append(("Script", element("code", script) if script else NO_SCRIPT))
        trained = [one for one in facts.parameters if one.requires_grad and not one.tied_to]
        elements = sum(_elements(one.shape) for one in facts.parameters if not one.tied_to)
        rows.append(("Model", facts.modules[0].type_name if facts.modules else "unknown"))
        rows.append(
            ("Parameters", f"{elements:,} numbers in {len(facts.parameters):,} tensors, {len(trained):,} trained")
        )
        for optimizer in facts.optimizers:
            group = optimizer.groups[0] if optimizer.groups else {}
            shown = ", ".join(f"{name} {value:g}" for name, value in group.items() if value)
            where = f" ({optimizer.line})" if optimizer.line else ""
            rows.append(("Optimizer", f"{optimizer.type_name}{where}: {shown}"))
        for loss in [one for one in facts.losses if one.name][:4]:
            where = f" ({loss.line})" if loss.line else ""
            rows.append(("Loss", f"{loss.type_name or loss.name}{where}"))
    table = [element("tr", element("th", label, scope="row"), element("td", text)) for label, text in rows]
    return element("table", element("tbody", table), class_="facts")


def _state(data: ReportData) -> str:
    status = data.record.status if data.record else None
    ending = ending_of(status) if status else ""
    return f"{data.live.state.value}: {ending}" if ending else data.live.state.value


def _elements(shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _method(data: ReportData) -> Markup:
    command = f"trackside findings {shlex.quote(data.recorded.location.uri)} --format json"
    recorded = (
        "Losses and learning rates are of every step. Norms of gradients, weights and updates are recorded as often as "
        "the budget for capture allows, so a point or a cell may stand for some of its steps."
    )
    return joined(
        element("p", recorded),
        element("p", "Curves are of the first process; cells show the largest number of all processes."),
        element("p", f"Written on {moment(data.generated_at)} by Trackside {__version__}."),
        element("p", "The same findings for programs: ", element("code", command)),
    )


def moment(seconds: float) -> str:
    """Return a moment in UTC, to the minute."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def part(name: str) -> str:
    """Return a style or a script of the pages."""
    return resources.files("trackside.views.report").joinpath(name).read_text("utf-8")


def source_of(content: str) -> Markup:
    """Return the name of a script or a style in a content security policy: its digest."""
    return Markup(f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}")
