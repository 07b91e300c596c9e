"""Findings in a few words: what most of them take from the window and the column that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trackside.contracts.verdict import Finding, FindingKind, Severity
from trackside.trial.window import Column, Window

_NONE: Mapping[str, float] = MappingProxyType({})


def finding_of(
    window: Window,
    of: Column | str,
    measure: str,
    observed: float,
    *,
    above: float | None = None,
    below: float = 0.0,
    since: int | None = None,
    worker: str = "worker_0",
    statistics: Mapping[str, float] = _NONE,
    series: tuple[tuple[int, float], ...] | None = None,
    place: str = "",
    kind: FindingKind = FindingKind.NUMBER,
    grade: Severity | None = None,
) -> Finding:
    """Return a finding at the judged step.

    Args:
        window: The run up to that step.
        of: The column that it is about, with its tensor and worker, or the subject.
        measure: The measured thing, and its unit.
        observed: The measured value.
        above: The limit that the value is above; None if it is below one.
        below: The limit that the value is below.
        since: The first step in a row at which it held; None for the judged one.
        worker: The worker, of a subject.
        statistics: Further numbers.
        series: The evidence; None for the values of the column.
        place: The line of the user's code; "" if unknown.
        kind: The kind of the finding.
        grade: How bad it is; None for the severity of its rule.
    """
    subject, own = (of, ()) if isinstance(of, str) else (of.tensor, of.series)
    return Finding(
        subject=subject,
        worker=worker if isinstance(of, str) else of.worker,
        step=window.step,
        since_step=window.step if since is None else since,
        measure=measure,
        observed=observed,
        relation="<" if above is None else ">",
        threshold=below if above is None else above,
        statistics=dict(statistics),
        series=own if series is None else series,
        place=place,
        kind=kind,
        grade=grade,
    )
