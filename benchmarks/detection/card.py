"""The quality card: what rules found in faulty runs, and how often they cried wolf in clean ones."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks.engine.figures import Share, share
from benchmarks.engine.judge import Alarm, Judged
from benchmarks.engine.pages import table
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity


@dataclass(frozen=True)
class Run:
    """A judged run, and what is true of it.

    kind         the class of its fault, "" for a clean run
    causes       these name it rightly
    effect_step  the step from which the fault acts
    """

    name: str
    kind: str
    causes: frozenset[Cause]
    effect_step: int
    judged: Judged

    def alarms(self, *, rule: str = "", at_least: Severity = Severity.WARNING) -> tuple[Alarm, ...]:
        """Return the alarms of a rule, or of any, that are so severe; of a faulty run since its fault acts."""
        return tuple(each for each in self.judged.at_least(at_least, rule) if each.step >= self.effect_step)

    def named(self, *, rule: str = "") -> tuple[Alarm, ...]:
        """Return those of them that name the cause among their first two."""
        return tuple(each for each in self.alarms(rule=rule) if self.causes.intersection(each.causes[:2]))

    def line(self) -> str:
        """Return all alarms in a line."""
        told = "; ".join(
            f"{each.rule} {each.severity.value} @{each.step} ({', '.join(cause.value for cause in each.causes[:2])})"
            for each in self.judged.alarms
        )
        mark = "" if not self.kind else f" since {self.effect_step}, {'named' if self.named() else 'NOT NAMED'}"
        crashed = f" CRASHED: {', '.join(self.judged.crashed)}" if self.judged.crashed else ""
        return f"{self.name}{mark}: {told or 'silent'}{crashed}"

    def document(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {**asdict(self), "causes": sorted(cause.value for cause in self.causes), "named": bool(self.named())}


@dataclass(frozen=True)
class Card:
    """The figures of a preset over many runs."""

    preset: str
    rules: tuple[str, ...]
    runs: tuple[Run, ...]

    @property
    def clean(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if not run.kind)

    @property
    def faulty(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.kind)

    def false_alarms(self, at_least: Severity, *, rule: str = "") -> Share:
        """Return the clean runs with any alarm of that level or above."""
        return share(self.clean, lambda run: run.alarms(rule=rule, at_least=at_least))

    def found(self, kind: str = "", *, rule: str = "") -> Share:
        """Return the faulty runs with any alarm since the fault acts."""
        return share(self._of(kind), lambda run: run.alarms(rule=rule))

    def named(self, kind: str = "", *, rule: str = "") -> Share:
        """Return the faulty runs of which some alarm names the cause in its first two suggestions."""
        return share(self._of(kind), lambda run: run.named(rule=rule))

    def steps(self, kind: str = "") -> float | None:
        """Return the median of the steps from the fault's effect to the first alarm that names it, if there is one."""
        steps = [run.named()[0].step - run.effect_step for run in self._of(kind) if run.named()]
        return statistics.median(steps) if steps else None

    def findings(self, kind: str = "") -> str:
        """Return the groups of alarms in a run: on average, and at most."""
        counts = [len({each.group for each in run.alarms()}) for run in self._of(kind)]
        return f"{statistics.mean(counts) if counts else 0.0:.1f}, {max(counts, default=0)}"

    def _of(self, kind: str) -> tuple[Run, ...]:
        return tuple(run for run in self.faulty if not kind or run.kind == kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({run.kind for run in self.faulty}))

    def markdown(self) -> Iterator[str]:
        """Yield the card, for people."""
        mean, _, most = self.findings().partition(", ")
        yield f"## Preset {self.preset}: {len(self.clean)} clean runs, {len(self.faulty)} faulty ones"
        yield ""
        yield f"- clean runs alarmed at critical level: {self.false_alarms(Severity.CRITICAL)}"
        yield f"- clean runs alarmed at warning level or above: {self.false_alarms(Severity.WARNING)}"
        yield f"- faulty runs found: {self.found()}"
        yield f"- faulty runs found, and the cause named in the first two suggestions: {self.named()}"
        yield f"- steps from the fault's effect to the alarm that names it (median): {_shown(self.steps())}"
        yield f"- findings per faulty run: {mean} on average, {most} at most"
        yield ""
        yield from table(
            "class of fault | runs | found | cause named | steps (median) | findings (mean, most)",
            (self._of_kind(kind) for kind in self.kinds),
        )
        yield ""
        yield from table(
            "rule | clean: critical | clean: warning or above | faulty runs found | cause named | best at",
            (self._of_rule(rule) for rule in self.rules),
        )
        yield ""
        yield f"### {self.preset}: classes of fault found by each rule"
        yield ""
        yield from table(
            "rule | found (any alarm since the fault acts)",
            (
                (rule, _by_kind((kind, self.found(kind, rule=rule)) for kind in self.kinds) or "-")
                for rule in self.rules
            ),
        )
        if crashed := sorted({rule for run in self.runs for rule in run.judged.crashed}):
            yield ""
            yield f"Crashed: {', '.join(crashed)}."

    def _of_kind(self, kind: str) -> tuple[object, ...]:
        found, named = self.found(kind), self.named(kind)
        steps, findings = _shown(self.steps(kind)), self.findings(kind)
        return kind, found.of, f"{found.value:.0%}", f"{named.value:.0%}", steps, findings

    def _of_rule(self, rule: str) -> tuple[object, ...]:
        best = sorted(self.kinds, key=lambda kind: -self.named(kind, rule=rule).value)[:3]
        levels = (self.false_alarms(level, rule=rule) for level in (Severity.CRITICAL, Severity.WARNING))
        best_at = _by_kind((kind, self.named(kind, rule=rule)) for kind in best)
        return rule, *levels, self.found(rule=rule), self.named(rule=rule), best_at


def _by_kind(shares: Iterator[tuple[str, Share]]) -> str:
    return ", ".join(f"{kind} {share.value:.0%}" for kind, share in shares if share.count)


def _shown(steps: float | None) -> str:
    return "-" if steps is None else f"{steps:g}"
