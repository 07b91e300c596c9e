"""The quality card: what rules found in faulty runs, and how often they cried wolf in clean ones."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.detection.wilson import Share
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity


@dataclass(frozen=True)
class Told:
    """An issue that a rule opened. `causes` are the first two that it suspects; `group` tells which issues are one."""

    rule: str
    severity: Severity
    step: int
    group: str
    causes: tuple[Cause, ...]
    message: str


@dataclass(frozen=True)
class Judged:
    """What was told of a run. `kind` is the class of its fault, "" for a clean run; `causes` name it rightly."""

    name: str
    program: str
    kind: str
    causes: frozenset[Cause]
    effect_step: int | None
    told: tuple[Told, ...]
    not_evaluated: tuple[str, ...] = ()
    crashed: tuple[str, ...] = ()
    seconds: float = 0.0

    def alarms(self, *, rule: str = "", at_least: Severity = Severity.WARNING) -> tuple[Told, ...]:
        """What was told by a rule, or by any, that is so severe; of a faulty run since its fault acts."""
        since = self.effect_step or 0
        return tuple(
            each
            for each in self.told
            if (not rule or each.rule == rule) and each.severity.rank >= at_least.rank and each.step >= since
        )

    def named(self, *, rule: str = "") -> tuple[Told, ...]:
        """Those of them that name the cause."""
        return tuple(each for each in self.alarms(rule=rule) if self.causes.intersection(each.causes))


@dataclass(frozen=True)
class Card:
    """The figures of a preset over many runs."""

    preset: str
    rules: tuple[str, ...]
    runs: tuple[Judged, ...]

    @property
    def clean(self) -> tuple[Judged, ...]:
        return tuple(run for run in self.runs if not run.kind)

    @property
    def faulty(self) -> tuple[Judged, ...]:
        return tuple(run for run in self.runs if run.kind)

    def false_alarms(self, at_least: Severity, *, rule: str = "") -> Share:
        """Clean runs with any alarm of that level or above."""
        return _share(self.clean, lambda run: bool(run.alarms(rule=rule, at_least=at_least)))

    def found(self, kind: str = "", *, rule: str = "") -> Share:
        """Faulty runs with any alarm since the fault acts."""
        return _share(self._of(kind), lambda run: bool(run.alarms(rule=rule)))

    def named(self, kind: str = "", *, rule: str = "") -> Share:
        """Faulty runs of which some alarm names the cause in its first two suggestions."""
        return _share(self._of(kind), lambda run: bool(run.named(rule=rule)))

    def steps(self, kind: str = "") -> float | None:
        """Median of the steps from the fault's effect to the first alarm that names it, where there is one."""
        steps = [run.named()[0].step - (run.effect_step or 0) for run in self._of(kind) if run.named()]
        return statistics.median(steps) if steps else None

    def most_findings(self, kind: str = "") -> int:
        """Groups of alarms in the run that has most."""
        return max((len({each.group for each in run.alarms()}) for run in self._of(kind)), default=0)

    def mean_findings(self, kind: str = "") -> float:
        """Groups of alarms in a run, on average."""
        counts = [len({each.group for each in run.alarms()}) for run in self._of(kind)]
        return statistics.mean(counts) if counts else 0.0

    def _of(self, kind: str) -> tuple[Judged, ...]:
        return tuple(run for run in self.faulty if not kind or run.kind == kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({run.kind for run in self.faulty}))

    def markdown(self) -> Iterator[str]:
        """The card, for people."""
        yield f"# Preset {self.preset}: {len(self.clean)} clean runs, {len(self.faulty)} faulty ones"
        yield ""
        yield f"- clean runs alarmed at critical level: {self.false_alarms(Severity.CRITICAL)}"
        yield f"- clean runs alarmed at warning level or above: {self.false_alarms(Severity.WARNING)}"
        yield f"- faulty runs found: {self.found()}"
        yield f"- faulty runs found, and the cause named in the first two suggestions: {self.named()}"
        yield f"- steps from the fault's effect to the alarm that names it (median): {_shown(self.steps())}"
        yield f"- findings per faulty run: {self.mean_findings():.1f} on average, {self.most_findings()} at most"
        yield ""
        yield "| class of fault | runs | found | cause named | steps (median) | findings (mean, most) |"
        yield "|---|---|---|---|---|---|"
        for kind in self.kinds:
            found, named = self.found(kind), self.named(kind)
            findings = f"{self.mean_findings(kind):.1f}, {self.most_findings(kind)}"
            yield (
                f"| {kind} | {found.of} | {found.value:.0%} | {named.value:.0%} | {_shown(self.steps(kind))} "
                f"| {findings} |"
            )
        yield ""
        yield "| rule | clean: critical | clean: warning or above | faulty runs found | cause named | best at |"
        yield "|---|---|---|---|---|---|"
        for rule in self.rules:
            best = sorted(self.kinds, key=lambda kind: -self.named(kind, rule=rule).value)[:3]
            best_at = ", ".join(
                f"{kind} {share.value:.0%}" for kind in best if (share := self.named(kind, rule=rule)).count
            )
            yield (
                f"| {rule} | {self.false_alarms(Severity.CRITICAL, rule=rule)} "
                f"| {self.false_alarms(Severity.WARNING, rule=rule)} "
                f"| {self.found(rule=rule)} | {self.named(rule=rule)} | {best_at} |"
            )

    def lines(self) -> Iterator[str]:
        """A line for each run: what was told of it."""
        for run in self.runs:
            told = "; ".join(
                f"{each.rule} {each.severity.value} @{each.step} ({', '.join(cause.value for cause in each.causes)})"
                for each in run.told
            )
            mark = "" if not run.kind else f" since {run.effect_step}, {'named' if run.named() else 'NOT NAMED'}"
            crashed = f" CRASHED: {', '.join(run.crashed)}" if run.crashed else ""
            yield f"{run.name}{mark}: {told or 'silent'}{crashed}"

    def document(self) -> dict[str, object]:
        """Plain JSON values."""
        return {
            "preset": self.preset,
            "clean": {
                "runs": len(self.clean),
                "critical": _plain(self.false_alarms(Severity.CRITICAL)),
                "warning": _plain(self.false_alarms(Severity.WARNING)),
            },
            "faulty": {"found": _plain(self.found()), "named": _plain(self.named()), "median_steps": self.steps()},
            "kinds": {
                kind: {
                    "found": _plain(self.found(kind)),
                    "named": _plain(self.named(kind)),
                    "median_steps": self.steps(kind),
                    "mean_findings": self.mean_findings(kind),
                }
                for kind in self.kinds
            },
            "rules": {
                rule: {
                    "critical": _plain(self.false_alarms(Severity.CRITICAL, rule=rule)),
                    "warning": _plain(self.false_alarms(Severity.WARNING, rule=rule)),
                    "recall": {kind: _plain(self.found(kind, rule=rule)) for kind in self.kinds},
                    "named": {kind: _plain(self.named(kind, rule=rule)) for kind in self.kinds},
                }
                for rule in self.rules
            },
            "runs": [
                {
                    "run": run.name,
                    "fault": run.kind,
                    "effect_step": run.effect_step,
                    "named": bool(run.named()),
                    "seconds": run.seconds,
                    "not_evaluated": list(run.not_evaluated),
                    "crashed": list(run.crashed),
                    "told": [
                        {
                            "rule": each.rule,
                            "severity": each.severity.value,
                            "step": each.step,
                            "group": each.group,
                            "causes": [cause.value for cause in each.causes],
                            "message": each.message,
                        }
                        for each in run.told
                    ],
                }
                for run in self.runs
            ],
        }


def card_of(judged: Sequence[Judged], *, preset: str, rules: Sequence[str]) -> Card:
    """The card of these runs."""
    return Card(preset, tuple(rules), tuple(judged))


def _share(runs: Sequence[Judged], holds: Callable[[Judged], bool]) -> Share:
    return Share(sum(holds(run) for run in runs), len(runs))


def _plain(share: Share) -> dict[str, object]:
    return {"count": share.count, "of": share.of, "interval": list(share.interval)}


def _shown(steps: float | None) -> str:
    return "-" if steps is None else f"{steps:g}"
