"""The table of the trial: when each rule alarms, relative to the step at which the loss is a tenth higher.

    python -m benchmarks.late.report [--lightning ENV/bin/python] [--write docs/late-alarms.md]

`+10 %` is the first step whose loss is above 1.1 x the largest of the 20 before the fault. All default rules judge each
run through the evaluator, as `trackside run` does; the step of a verdict is the step that the rule had judged when it
spoke. With `--lightning`, the SpikeDetection of Lightning is asked about the same losses, by an environment that holds
it (`pip install lightning`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.late.train import LOSSES, ROOT
from benchmarks.late.trainings import FAULT_STEP, FAULTY, HEALTHY, Training
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.progress import ProgressFile
from trackside.evaluation.rule_limits import NO_LIMITS
from trackside.rules.catalogue import build_rules, default_request
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.trial.trial import Trial

ASKED = ("runaway-updates", "loss-spike", "growing-attention")
SPIKE_DETECTION = "Lightning SpikeDetection"


@dataclass(frozen=True)
class Judged:
    """A run with its first alarms: rule -> step; `severities` are the highest of each rule."""

    training: Training
    losses: tuple[float, ...]
    alarms: dict[str, int | None]
    severities: dict[str, Severity]

    @property
    def risen_at(self) -> int | None:
        """The first step with a loss a tenth above those before the fault."""
        limit = 1.1 * max(self.losses[FAULT_STEP - 20 : FAULT_STEP])
        late = range(FAULT_STEP, len(self.losses))
        return next((step for step in late if not self.losses[step] <= limit), None)


def judge(training: Training, root: Path) -> Judged:
    """Ask all default rules, and those of the trial, about a stored run."""
    run = RunLocation(str((root / training.name / "run").absolute()))
    chosen = {rule.rule_id: rule for rule in default_request().rules}
    chosen |= {rule_id: RuleConfiguration(rule_id) for rule_id in ASKED if rule_id not in chosen}
    evaluator = Evaluator(
        Trial(open_store(run.tensors), open_store(run.statistics)),
        build_rules(RuleRequest(tuple(chosen.values()))),
        (),
        ProgressFile(MemoryStore()),
        run=training.name,
        clock=lambda: 0.0,
        limits=NO_LIMITS,
    )
    verdicts = evaluator.watch(poll_seconds=0, sleep=lambda _: None, should_stop=lambda: True).verdicts
    issues = [v for v in verdicts if v.outcome is Outcome.ISSUE_FOUND and v.state is State.OPENED]
    losses = tuple(json.loads((root / training.name / LOSSES).read_text(encoding="utf-8")))
    alarms: dict[str, int | None] = {rule_id: _first(issues, (rule_id,)) for rule_id in ASKED}
    alarms["all other rules"] = _first(issues, tuple(sorted(set(chosen) - set(ASKED))))
    severities: dict[str, Severity] = {}
    for verdict in issues:
        known = severities.get(verdict.rule_id, Severity.INFO)
        severities[verdict.rule_id] = max(known, verdict.severity, key=lambda severity: severity.rank)
    return Judged(training, losses, alarms, severities)


def _first(issues: Sequence[Verdict], rules: Sequence[str]) -> int | None:
    """The step of the first warning of these rules."""
    return min((v.step for v in issues if v.rule_id in rules and v.severity is not Severity.INFO), default=None)


def table(judged: Sequence[Judged], lightning: dict[str, int | None]) -> list[str]:
    """The table as Markdown."""
    signals = [*ASKED, "all other rules", *([SPIKE_DETECTION] if lightning else [])]
    lines = ["| run | +10 % at step | loss at the end | " + " | ".join(signals) + " |"]
    lines.append("|---|---|---|" + "---|" * len(signals))
    for run in judged:
        alarms = run.alarms | {SPIKE_DETECTION: lightning.get(run.training.name)}
        risen = run.risen_at if run.training.is_faulty else None
        cells = [_cell(alarms[signal], risen) for signal in signals]
        at = "" if risen is None else str(risen)
        lines.append(f"| {run.training.name} | {at} | {run.losses[-1]:.3g} | " + " | ".join(cells) + " |")
    return lines


def summary(judged: Sequence[Judged], lightning: dict[str, int | None]) -> list[str]:
    """The figures of each signal as Markdown."""
    lines = ["| signal | false alarms | found | steps after +10 % (least to most) |", "|---|---|---|---|"]
    healthy = [run for run in judged if not run.training.is_faulty]
    faulty = [run for run in judged if run.training.is_faulty]
    for signal in [*ASKED, "all other rules", *([SPIKE_DETECTION] if lightning else [])]:
        alarm = {
            run.training.name: lightning.get(run.training.name) if signal == SPIKE_DETECTION else run.alarms[signal]
            for run in judged
        }
        false = sum(alarm[run.training.name] is not None for run in healthy)
        leads = sorted(
            at - risen
            for run in faulty
            if (at := alarm[run.training.name]) is not None and (risen := run.risen_at) is not None
        )
        span = f"{leads[0]:+d} to {leads[-1]:+d}" if leads else "-"
        lines.append(f"| {signal} | {false} of {len(healthy)} | {len(leads)} of {len(faulty)} | {span} |")
    return lines


def _cell(at: int | None, risen: int | None) -> str:
    if at is None:
        return "-"
    return f"step {at}" if risen is None else f"{at - risen:+d}"


def main() -> int:
    """Print the tables; 1 if a run is not stored."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=Path, default=ROOT)
    options.add_argument("--lightning", help="a Python that has Lightning")
    options.add_argument("--write", type=Path, help="replace what follows the marker in this page")
    arguments = options.parse_args()
    stored = [t for t in (*HEALTHY, *FAULTY) if (arguments.root / t.name / LOSSES).exists()]
    if len(stored) < len(HEALTHY) + len(FAULTY):
        print(f"{len(stored)} of {len(HEALTHY) + len(FAULTY)} runs are stored.", file=sys.stderr)
    lightning: dict[str, int | None] = {}
    if arguments.lightning:
        asked = [arguments.lightning, str(Path(__file__).with_name("lightning_alarm.py")), str(arguments.root)]
        lightning = json.loads(
            subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        )
    judged = [judge(training, arguments.root) for training in stored]
    lines = [*summary(judged, lightning), "", *table(judged, lightning)]
    print("\n".join(lines))
    if arguments.write:
        kept, marker, _ = arguments.write.read_text(encoding="utf-8").partition(MARKER)
        arguments.write.write_text("\n".join([kept + marker, "", *lines, ""]), encoding="utf-8")
    return 0 if len(stored) == len(HEALTHY) + len(FAULTY) else 1


MARKER = "<!-- What follows is written by `python -m benchmarks.late.report`. -->"

if __name__ == "__main__":
    sys.exit(main())
