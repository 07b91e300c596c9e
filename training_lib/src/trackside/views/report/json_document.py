"""The report for programs: each number that the page shows, in full, and each text and table of it.

Curves, maps, distributions, speed and signals are lists of numbers. `sections` hold what the page says in words and
tables, read from the page itself, so that nothing it shows is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside import __version__
from trackside.contracts.fields import write_number
from trackside.runs.run_document import run_document
from trackside.speed.performance.verdict import PerformanceVerdict
from trackside.trial.tensors.buckets import Buckets
from trackside.views.report.charts.heatmap import Heatmap
from trackside.views.report.distribution import QUANTILES, Distribution
from trackside.views.report.gathered import ReportData
from trackside.views.report.incident import Incident
from trackside.views.report.model.labelled import LabelledRun
from trackside.views.report.page import content_of, key_numbers, verdict_of

VERSION = 1  # of the document, `schema_version`
_BLOCKS = frozenset(
    {"p", "li", "h1", "h3", "h4", "figcaption", "summary", "caption", "dt", "dd", "td", "th", "label", "legend", "pre"}
)
_OPEN_ENDED = frozenset({"img", "input", "br", "meta", "link", "hr"})


def report_document(data: ReportData) -> dict[str, Any]:
    """Return the report as plain JSON values; a number that is not finite is a word."""
    return {
        **run_document(data.recorded),
        "name": data.recorded.location.name,
        "trackside_version": __version__,
        "generated_at": data.generated_at,
        "state": data.live.state.value,
        "verdict": verdict_of(data),
        "key_numbers": dict(key_numbers(data)),
        "first_step": data.steps[0] if data.steps else None,
        "last_step": data.steps[1] if data.steps else None,
        "workers": list(data.workers),
        "curves": [
            {"section": section, "title": title, **_buckets(found)}
            for section, some in (
                ("training", data.charts),
                ("fine-tuning", data.fine_tuning),
                ("machine", data.machine),
            )
            for title, found in some
        ],
        "maps": [
            {"section": section, **_map(found)}
            for section, some in (("machine", data.cores), ("layers", data.heatmaps), ("experts", data.routing))
            for found in some
        ],
        "distributions": [_distribution(one) for one in data.distributions],
        "speed": [{"worker": worker, **_speed(verdict)} for worker, verdict in data.speed],
        "incidents": [_incident(one) for one in data.incidents],
        "model": None if data.model is None else _model(data.model),
        "sections": list(_sections_of("".join(content_of(data)))),
    }


def _numbers(values: NDArray[Any]) -> list[Any]:
    """Return an array as lists of whole numbers, or of numbers that JSON can carry."""
    if values.ndim > 1:
        return [_numbers(row) for row in values]
    return values.tolist() if values.dtype.kind in "iub" else [write_number(float(value)) for value in values]


def _buckets(found: Buckets) -> dict[str, Any]:
    names = ("first", "last", "low", "mean", "high", "count", "is_broken")
    return {name: _numbers(getattr(found, name)) for name in names}


def _map(found: Heatmap) -> dict[str, Any]:
    return {
        "title": found.title,
        "rows": list(found.tensors),
        "edges": _numbers(found.edges),
        "values": [
            [
                "not finite" if is_broken else None if np.isnan(value) else float(value)
                for value, is_broken in zip(row, broken, strict=True)
            ]
            for row, broken in zip(found.values, found.is_broken, strict=True)
        ],
        "left_out": found.left_out,
    }


def _distribution(one: Distribution) -> dict[str, Any]:
    return {
        "tensor": one.name,
        "worker": one.worker,
        "steps": _numbers(one.steps),
        "quantile_levels": list(QUANTILES),
        **{name: _numbers(getattr(one, name)) for name in ("quantiles", "edges", "counts", "zeros", "broken")},
        "size": one.size,
        "left_out": one.left_out,
        "sizes": [{"title": title, **_buckets(found)} for title, found in one.sizes],
    }


def _speed(verdict: PerformanceVerdict) -> dict[str, Any]:
    return {
        "bottleneck": verdict.bottleneck.value,
        "headline": verdict.headline,
        "steps": verdict.steps,
        "seconds": verdict.seconds,
        "phases": [
            {"name": one.name, "seconds": one.seconds, "share": one.share, "steps": one.steps} for one in verdict.phases
        ],
    }


def _incident(one: Incident) -> dict[str, Any]:
    return {
        "group": one.group.group,
        "first_step": one.steps[0],
        "last_step": one.steps[1],
        "since_step": one.since,
        "signals": [
            {
                "tensor": signal.name,
                "statistic": signal.statistic,
                "left_at": None if signal.left is None else signal.left[0],
                "before": write_number(signal.before),
                "after": write_number(signal.after),
                "steps": _numbers(signal.steps),
                "values": _numbers(signal.values),
            }
            for signal in one.signals
        ],
        "stayed": one.stayed,
        "batches": [
            {"step": step, "epoch": epoch, "number": number, "fingerprint": fingerprint}
            for step, epoch, number, fingerprint in one.batches
        ],
        "weights_saved_at": one.saved,
        "checkpoint": None if one.written is None else {"step": one.written.step, "path": one.written.path},
    }


def _model(run: LabelledRun) -> dict[str, Any]:
    return {
        "objective": run.objective,
        "family": run.family.value,
        "metrics": [
            {"metric": metric, "data_set": name, "rounds": _numbers(steps), "values": _numbers(values)}
            for metric, sets in run.metrics.items()
            for name, (steps, values) in sets.items()
        ],
        "importance": [
            {"kind": kind, "feature": feature, "first": write_number(first), "last": write_number(last)}
            for kind, scores in run.importance.items()
            for feature, (first, last) in scores.items()
        ],
    }


# The page's words --------------------------------------------------------------------------------------------------


def _sections_of(page: str) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a page: the heading as `summary`, then each section with its texts and tables."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    for section in reader.sections:
        if section["texts"] or section["tables"]:
            yield section


class _Reader(HTMLParser):
    """Collects texts and tables of a page of ours. Drawings are left out: their numbers stand in the curves."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[dict[str, Any]] = [_section("summary")]
        self._open: list[str] = []
        self._words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _OPEN_ENDED:
            return
        self._open.append(tag)
        if tag in _BLOCKS or tag in {"section", "table", "tr"}:
            self._end_of_block()
        if tag == "section":
            self.sections.append(_section(dict(attrs).get("id") or ""))
        elif tag == "table":
            self._tables.append([])
        elif tag == "tr":
            self._tables[-1].append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Leave out an element without content."""

    def handle_endtag(self, tag: str) -> None:
        if tag in _OPEN_ENDED or tag not in self._open:
            return
        is_cell = tag in {"td", "th"}
        if is_cell:
            self._tables[-1][-1].append(self._taken())
        elif tag in _BLOCKS or tag == "section":
            self._end_of_block()
        while self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "svg" not in self._open:
            self._words.append(data)

    @property
    def _tables(self) -> list[list[list[str]]]:
        tables: list[list[list[str]]] = self.sections[-1]["tables"]
        return tables

    def _taken(self) -> str:
        words, self._words = " ".join("".join(self._words).split()), []
        return words

    def _end_of_block(self) -> None:
        if words := self._taken():
            self.sections[-1]["texts"].append(words)


def _section(name: str) -> dict[str, Any]:
    return {"section": name, "texts": [], "tables": []}
