"""The report as a Jupyter notebook, as SageMaker Debugger left one beside its own: text, and cells that read the run.

What is known is written as text, so that a preview shows it. The cells use the public API alone, and need no package
beside Trackside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trackside import __version__
from trackside.runs.source_text import SourceText
from trackside.views.report.gathered import ReportData
from trackside.views.report.layers import LAYER_MAPS
from trackside.views.report.markdown import escaped, problem_lines, rule_lines, rules_in_order, table_row
from trackside.views.report.page import key_numbers, moment, sentence, verdict_of

_MAPS = ("gradient_norm", "update_ratio", "zero_share", "weight_norm")  # of `LAYER_MAPS`, as `Trial.heatmap` has them
_OPEN = """\
import numpy as np
import trackside

RUN = {run}
trial = trackside.open_trial(RUN)
profile = trackside.open_profile(RUN)"""
_FINDINGS = """\
# By all usual rules, now; nothing is written.
run = trackside.judge(RUN)
run"""
_LOSSES = """\
for name in trial.tensor_names(collection="losses"):
    for column in trial.tensor(name).columns("mean"):
        chosen = np.unique(np.linspace(0, len(column.steps) - 1, 10).astype(int))
        print(name, column.worker, *(f"{column.steps[n]}: {column.values[n]:.4g}" for n in chosen), sep="\\n  ")
# trial.tensor(name).to_pandas() has every step, for charts."""
_SYSTEM = """\
print(f"{'machine':12} {'metric':28} {'device':10} {'most':>10} {'99 %':>10} {'95 %':>10} {'median':>10} {'least':>10}")
for one in profile.metrics():
    numbers = np.quantile(one.values, [1, 0.99, 0.95, 0.5, 0])
    print(f"{one.node:12} {one.dimension:28} {one.name:10}", *(f"{number:10.4g}" for number in numbers))"""
_SPEED = """\
for worker, verdict in profile.verdicts().items():
    print(f"{worker}: {verdict.bottleneck.value}: {verdict.headline}")
    for phase in verdict.phases:
        print(f"  {phase.name:12} {phase.seconds * 1000:9.3f} ms a step  {phase.share:6.1%}")"""
_STEPS = """\
for one in profile.steps():
    median, high = np.quantile(one.seconds, [0.5, 0.99])
    longest = np.argsort(one.seconds)[-5:][::-1]
    print(f"{one.worker}: median {median:.4g} s, 99 % {high:.4g} s; the longest:")
    for place in longest:
        print(f"  step {one.steps[place]}: {one.seconds[place]:.4g} s")"""


def notebook_of(data: ReportData) -> str:
    """Return the notebook as JSON, as nbformat 4.5 has it."""
    cells = [
        {"id": f"cell-{place}", "metadata": {}, "source": source, **_KINDS[kind]}
        for place, (kind, source) in enumerate(_cells(data))
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document: dict[str, Any] = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return f"{json.dumps(document, indent=1)}\n"


_TEXT, _CODE = "markdown", "code"
_KINDS: dict[str, dict[str, Any]] = {
    _TEXT: {"cell_type": "markdown"},
    _CODE: {"cell_type": "code", "execution_count": None, "outputs": []},
}


def _cells(data: ReportData) -> Iterator[tuple[str, str]]:
    uri = data.recorded.location.uri
    place = uri if "://" in uri else str(Path(uri).absolute())
    yield (
        _TEXT,
        _text(
            f"# {escaped(data.recorded.location.name)}",
            f"**{escaped(verdict_of(data))}**",
            f"Written on {moment(data.generated_at)} by Trackside {__version__}. Its cells read the run anew.",
        ),
    )
    yield _CODE, _OPEN.format(run=ascii(place))
    yield _TEXT, _text("## Training job summary", _table(data))
    sources = SourceText(data.recorded.location.uri)
    yield _TEXT, _text("## Findings", *("\n".join(problem_lines(group, sources)) for group in data.problems))
    yield _CODE, _FINDINGS
    yield _TEXT, "## Losses"
    yield _CODE, _LOSSES
    yield _TEXT, "## System usage statistics"
    yield _CODE, _SYSTEM
    yield _TEXT, "## Where the time of a step went"
    yield _CODE, _SPEED
    yield _TEXT, "## Step durations"
    yield _CODE, _STEPS
    known = {found.title for found in data.heatmaps}
    maps = [name for name, (title, _, _) in zip(_MAPS, LAYER_MAPS, strict=True) if title in known]
    if maps:
        yield _TEXT, "## Layers over steps"
        yield from ((_CODE, f'trial.heatmap("{name}")') for name in maps)
    yield _TEXT, "## Tensors"
    yield _CODE, "trial"
    rules = "\n".join(rule_lines(rules_in_order(data))) if data.rules else sentence(data.recorded.judged.not_judged)
    yield _TEXT, _text("## Rules summary", rules)


def _table(data: ReportData) -> str:
    rows = [
        *key_numbers(data),
        ("state", data.live.state.value),
        ("processes", ", ".join(data.workers[:8]) or "unknown"),
    ]
    head = [table_row(("", "")), table_row(("---", "---"))]
    return "\n".join([*head, *(table_row((escaped(label), escaped(value))) for label, value in rows)])


def _text(*parts: str) -> str:
    return "\n\n".join(parts)
