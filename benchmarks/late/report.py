"""The table of the trial: when each rule alarms, relative to the step at which the loss is a tenth higher.

    python -m benchmarks.late.report [--lightning ENV/bin/python] [--write docs/late-alarms.md]

`+10 %` is the first step whose loss is above 1.1 x the largest of the 20 before the fault. All default rules judge each
run through the evaluator, as `trackside run` does; the step of a verdict is the step that the rule had judged when it
spoke. With `--lightning`, the SpikeDetection of Lightning is asked about the same losses, by an environment that holds
it (`pip install lightning`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.judge import judge as judge_run
from benchmarks.engine.options import parser
from benchmarks.engine.pages import follows, put
from benchmarks.engine.stored import RUN
from benchmarks.engine.usual import rules_of
from benchmarks.late.train import LOSSES, ROOT
from benchmarks.late.trainings import FAULT_STEP, FAULTY, HEALTHY, Training
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Severity

ASKED = ("runaway-updates", "loss-spike", "growing-attention")
SPIKE_DETECTION = "Lightning SpikeDetection"


@dataclass(frozen=True)
class Judged:
    """A run with its first warnings: rule -> step."""

    training: Training
    losses: tuple[float, ...]
    alarms: dict[str, int | None]

    @property
    def risen_at(self) -> int | None:
        """The first step with a loss a tenth above those before the fault."""
        limit = 1.1 * max(self.losses[FAULT_STEP - 20 : FAULT_STEP])
        late = range(FAULT_STEP, len(self.losses))
        return next((step for step in late if not self.losses[step] <= limit), None)


def judge(training: Training, root: Path) -> Judged:
    """Ask all default rules, and those of the trial, about a stored run."""
    asked = [each.rule_id for each in rules_of()]
    chosen = [*rules_of(), *(RuleConfiguration(rule_id) for rule_id in ASKED if rule_id not in asked)]
    judged = judge_run(training.folder(root) / RUN, chosen)
    losses = tuple(json.loads((training.folder(root) / LOSSES).read_text(encoding="utf-8")))
    warned = judged.at_least(Severity.WARNING)
    alarms = {rule: min((each.step for each in warned if each.rule == rule), default=None) for rule in ASKED}
    alarms["all other rules"] = min((each.step for each in warned if each.rule not in ASKED), default=None)
    return Judged(training, losses, alarms)


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
    options = parser(__doc__)
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
    put([*summary(judged, lightning), "", *table(judged, lightning)], arguments.write, begin=MARKER)
    return 0 if len(stored) == len(HEALTHY) + len(FAULTY) else 1


MARKER = follows("benchmarks.late.report")

if __name__ == "__main__":
    sys.exit(main())
