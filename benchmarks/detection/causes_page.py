"""docs/causes.md and its diagram: the learned tables, and how good they are on unseen programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine.pages import follows, put
from trackside.contracts.cause import EXPLANATIONS, Cause
from trackside.diagnosis.learned import Weights
from trackside.diagnosis.signs import FOUND, HARM, SHOWN
from trackside.evidence.registry import all_questions

if TYPE_CHECKING:
    from benchmarks.detection.learn_causes import Calibration, Level, Named

PAGE = Path("docs/causes.md")
DIAGRAM = Path("docs/images/reliability.svg")
MARKER = follows("benchmarks.detection.learn_causes")
VISIBLE = 0.3  # weights below it are not shown on the page
SIZE, MARGIN = 320, 45  # of the diagram, in pixels


def write_page(
    weights: Weights,
    *,
    calibration: Calibration,
    levels: Sequence[Level],
    measures: tuple[Named, Named],
    runs: int,
) -> None:
    """Write the part of the page below the marker, and the reliability diagram."""
    put([*_page(weights, calibration, levels, measures, runs)], PAGE, begin=MARKER)
    DIAGRAM.write_text(diagram(calibration), encoding="utf-8")


def _page(
    weights: Weights, calibration: Calibration, levels: Sequence[Level], measures: tuple[Named, Named], runs: int
) -> Iterator[str]:
    before, after = measures
    yield "## How well causes are named"
    yield ""
    yield f"{runs} runs of the split `tune`; each program is measured with weights learned from the other programs."
    yield ""
    yield "| | expected weights, nothing learned | learned, unseen programs |"
    yield "|---|---|---|"
    for title, value in (
        ("faulty runs with a card", lambda one: f"{one.found} of {one.runs}"),
        ("first cause of the first card is right", lambda one: _share(one.first, one.runs)),
        ("right among the first two causes of two cards", lambda one: _share(one.two, one.runs)),
        ("first card names no cause", lambda one: _share(one.unknown, one.runs)),
        ("cards a faulty run, mean and most", lambda one: f"{sum(one.cards) / len(one.cards):.2f}, {max(one.cards)}"),
    ):
        yield f"| {title} | {value(before)} | {value(after)} |"
    yield ""
    yield "## Probabilities"
    yield ""
    yield "![Probability of issues against the share that is real](images/reliability.svg)"
    yield ""
    yield f"Brier score {calibration.brier:.3f}, expected calibration error {calibration.expected_error:.3f}."
    yield ""
    yield "| mean probability | share that is real | issues |"
    yield "|---|---|---|"
    for mean, true, _, count in calibration.bins():
        yield f"| {mean:.2f} | {true:.2f} | {count} |"
    yield ""
    yield "## Rules with a critical level"
    yield ""
    yield "Runs with a critical issue of the rule while the run shows that harm; a kind below 99 % is not used."
    yield ""
    yield "| rule | harm | in faulty runs | in clean runs, or before the fault acts | used |"
    yield "|---|---|---|---|---|"
    for level in levels:
        yield f"| {level.rule} | {level.harm} | {level.right} | {level.wrong} | {'yes' if level.is_precise else 'no'} |"
    yield ""
    yield "## Evidence and causes"
    yield ""
    yield "Weights in natural logarithms of odds; above zero for the cause, below zero against it."
    yield ""
    yield "| evidence | present | absent |"
    yield "|---|---|---|"
    for name in weights.present:
        present, absent = _row(weights.present.get(name, {})), _row(weights.absent.get(name, {}))
        if present or absent:
            yield f"| {_title(name)} | {present or '-'} | {absent or '-'} |"


def _row(row: dict[str, float] | object) -> str:
    assert isinstance(row, dict)
    shown = sorted(((weight, cause) for cause, weight in row.items() if abs(weight) >= VISIBLE), reverse=True)
    return ", ".join(f"{cause} {weight:+.1f}" for weight, cause in shown)


def _title(name: str) -> str:
    if name in all_questions():
        return all_questions()[name].text
    if name.startswith(SHOWN):
        return f"A rule has numbers for: {EXPLANATIONS[Cause(name.removeprefix(SHOWN))].what}"
    if name.startswith(HARM):
        return f"Harm: {name.removeprefix(HARM)}"
    return f"Found by `{name.removeprefix(FOUND)}`"


def _share(count: int, of: int) -> str:
    return f"{count} of {of}, {count / of:.1%}"


def diagram(calibration: Calibration) -> str:
    """Return the reliability diagram as SVG: a dot a bin, its area by the number of issues, and the diagonal."""

    def place(mean: float, true: float) -> tuple[float, float]:
        return MARGIN + mean * SIZE, MARGIN + (1 - true) * SIZE

    dots = [
        f'<circle cx="{place(mean, true)[0]:.1f}" cy="{place(mean, true)[1]:.1f}" r="{3 + 25 * share**0.5:.1f}"/>'
        for mean, true, share, _ in calibration.bins()
    ]
    ticks = [
        f'<text x="{place(t, 0)[0]:.0f}" y="{SIZE + MARGIN + 18}" text-anchor="middle">{t:.1f}</text>'
        f'<text x="{MARGIN - 8}" y="{place(0, t)[1] + 4:.0f}" text-anchor="end">{t:.1f}</text>'
        for t in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    whole = SIZE + 2 * MARGIN
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {whole}" font-family="sans-serif" '
                'font-size="12" role="img" aria-label="Probability of issues against the share that is real">'
            ),
            f'<rect width="{whole}" height="{whole}" fill="#fff"/>',
            f'<rect x="{MARGIN}" y="{MARGIN}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>',
            (
                f'<line x1="{MARGIN}" y1="{MARGIN + SIZE}" x2="{MARGIN + SIZE}" y2="{MARGIN}" stroke="#888" '
                'stroke-dasharray="4"/>'
            ),
            '<g fill="#2563eb" fill-opacity="0.6">',
            *dots,
            "</g>",
            *ticks,
            f'<text x="{whole / 2:.0f}" y="{whole - 6}" text-anchor="middle">probability shown</text>',
            (
                f'<text x="14" y="{whole / 2:.0f}" text-anchor="middle" transform="rotate(-90 14 {whole / 2:.0f})">'
                "share that is real</text>"
            ),
            "</svg>",
            "",
        ]
    )
