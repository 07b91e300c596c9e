"""Verdicts for tests: each argument left out has a value that is true to life."""

from __future__ import annotations

from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict

SERIES = tuple((2 * i, 10.0 ** -(i + 2)) for i in range(10))


def finding(
    subject: str = "gradient/MLP_layers.0.weight",
    *,
    since_step: int = 4,
    series: tuple[tuple[int, float], ...] = SERIES,
    observed: float = 3.1e-12,
    worker: str = "worker_0",
) -> Finding:
    return Finding(
        subject=subject,
        worker=worker,
        step=20,
        since_step=since_step,
        measure="mean |gradient|",
        observed=observed,
        relation="<",
        threshold=1e-7,
        series=series,
    )


def issue(
    name: str = "vanishing-gradient",
    *,
    severity: Severity = Severity.CRITICAL,
    findings: tuple[Finding, ...] = (finding(),),
    affected: int | None = None,
    message: str = "12 of 22 gradients are too small to move the weights.",
    what_to_do: tuple[str, ...] = ("Replace sigmoid by ReLU.", "Normalise between layers."),
) -> Verdict:
    return Verdict(
        run="digits",
        rule_id=name,
        configuration_name=name,
        outcome=Outcome.ISSUE_FOUND,
        severity=severity,
        step=20,
        message=message,
        detected_at=1_000_000.0,
        findings=findings,
        affected=len(findings) if affected is None else affected,
        what_to_do=what_to_do,
    )


def no_issue(
    name: str = "exploding-tensor", *, outcome: Outcome = Outcome.CLEAN, message: str = "No issue."
) -> Verdict:
    return Verdict(
        run="digits",
        rule_id=name,
        configuration_name=name,
        outcome=outcome,
        severity=Severity.CRITICAL,
        step=40,
        message=message,
        detected_at=1_000_001.0,
    )
