"""Trackside beside rl-doctor, rlwatch and rlprobe on the same runs of reinforcement learning.

    python -m benchmarks.language.report           # trains what is not there
    python -m benchmarks.language.rivals --write docs/fine-tuning.md

The runs are those of `benchmarks.language` that log a reward. Each tool is given what it reads, under the names of TRL:
rewards, their spread, divergence, entropy, lengths, clipped shares, shares of equal groups, the loss, the norm of the
gradient, and rl-doctor the held-out reward. Trackside has its own recording of them.
A mistake is named if a finding, of Trackside the first two causes of a card, is of the kind of the mistake; `_KINDS` is
generous to findings that could mean several. The tools are installed once, in `build/language/rivals`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.judge import judge_all
from benchmarks.engine.options import add_place, parser
from benchmarks.engine.pages import put
from benchmarks.engine.stored import RUN
from benchmarks.language.case import REPORT, TUNE
from benchmarks.language.report import ROOT, Job, chosen, is_found, is_named
from trackside.contracts.run.language_numbers import PART
from trackside.contracts.run.recorded_names import LOGGED
from trackside.contracts.verdict import Severity
from trackside.environment import inherited
from trackside.runs.live_run import LiveRunReader
from trackside.trial.trial import Trial, open_trial

BEGIN, END = "<!-- benchmarks.language.rivals -->", "<!-- end of benchmarks.language.rivals -->"
TOOLS = {"rl-doctor": "rldoctor==0.2.0", "rlwatch": "rlwatch==0.5.1", "rlprobe": "rlprobe==0.1.0"}
_OURS = "Trackside"
_FEWEST_ROWS = 10
_NAMES = {  # of TRL, and of the tool that reads a held-out reward
    "reward": "reward",
    "reward_spread": "reward_std",
    "held_out_reward": "eval/reward",
    "kl": "kl",
    "entropy": "entropy",
    "clipped_share": "clip_ratio/region_mean",
    "answer_length": "completions/mean_length",
    "cut_share": "completions/clipped_ratio",
    "equal_groups": "frac_reward_zero_std",
}
_DRIFT = frozenset(
    {"learning-rate-too-high", "stale-rollouts", "sampler-differs", "penalty-too-strong", "learning-rate-schedule"}
)
_KINDS: Mapping[str, frozenset[str]] = {
    "reward_hacking": frozenset({"reward-gamed"}),
    "reward_composition": frozenset({"reward-gamed"}),
    "REWARD_HACK_LENGTH": frozenset({"reward-gamed", "unended-answers"}),
    "FORMAT_GAMING": frozenset({"reward-gamed"}),
    "length_pathology": frozenset({"unended-answers", "reward-gamed"}),
    "TRUNCATION_STARVE": frozenset({"unended-answers"}),
    "REPETITION_SPIRAL": frozenset({"unended-answers", "reward-gamed"}),
    "entropy_collapse": frozenset({"entropy-collapse", "learning-rate-too-high", "entropy-too-high"}),
    "ENTROPY_COLLAPSE": frozenset({"entropy-collapse", "learning-rate-too-high", "entropy-too-high"}),
    "advantage_collapse": frozenset({"uninformative-reward"}),
    "DEGENERATE_GROUPS": frozenset({"uninformative-reward"}),
    "ADV_COLLAPSE": frozenset({"uninformative-reward"}),
    "REWARD_STD_DEATH": frozenset({"uninformative-reward"}),
    "advantage_variance": frozenset({"uninformative-reward", "learning-rate-too-high"}),
    "kl_drift": _DRIFT,
    "kl_explosion": _DRIFT,
    "KL_BLOWUP": _DRIFT,
    "REF_POLICY_DRIFT_ASYMMETRY": _DRIFT,
    "clip_saturation": _DRIFT,
    "CLIP_SATURATION": _DRIFT,
    "gradient_pathology": frozenset({"learning-rate-too-high", "undefined-value", "non-finite-data"}),
    "GRAD_PATHOLOGY": frozenset({"learning-rate-too-high", "undefined-value", "non-finite-data"}),
    "gradient_norm_spike": frozenset({"learning-rate-too-high"}),
    "loss_nan": frozenset({"undefined-value", "non-finite-data"}),
    "plateau": frozenset({"learning-rate-too-low", "unrelated-reward", "parameters-not-in-optimizer"}),
    "reward_mean_drift": frozenset({"loss-sign", "reward-gamed", "learning-rate-too-high"}),
}


@dataclass(frozen=True)
class Verdict:
    """What a tool says of a run: an alarm at all, a critical one, and whether it names the mistake."""

    is_alarm: bool
    is_critical: bool
    is_named: bool


def rows_of(trial: Trial) -> list[dict[str, Any]]:
    """Return the log of a run, a row for each step with a reward; [] for a run without any."""
    last = trial.recorded_through
    found: dict[int, dict[str, Any]] = {}

    def add(name: str, steps: Sequence[int], values: Sequence[float]) -> None:
        for step, value in zip(steps, values, strict=True):
            found.setdefault(step, {"step": step})[name] = value

    for recorded in trial.names:
        own = recorded.removeprefix(LOGGED)
        name = f"rewards/{own.removeprefix(PART)}/mean" if own.startswith(PART) else _NAMES.get(own)
        if recorded.startswith(LOGGED) and name is not None:
            for column in trial.columns(recorded, "mean", last_step=last, mode=None)[:1]:
                add(name, column.steps.tolist(), column.values.tolist())
    logged = {step for step, row in found.items() if "reward" in row}
    if len(logged) < _FEWEST_ROWS:
        return []
    live = LiveRunReader(trial, clock=lambda: 0.0).look()
    for name, curve in (*(("loss", one) for one in live.losses[:1]), ("grad_norm", live.gradient_norm)):
        add(name, curve.steps.tolist(), curve.values.tolist())
    return [found[step] for step in sorted(found) if step in logged or "eval/reward" in found[step]]


def verdicts(logs: Mapping[str, list[dict[str, Any]]], root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each log, and by tool its findings, or why it has none."""
    logged = root / "rivals.jsonl"
    logged.write_text("".join(json.dumps({"name": name, "rows": rows}) + "\n" for name, rows in logs.items()))
    script = Path(__file__).with_name("rival_verdicts.py")
    done = subprocess.run([_python(root), script, logged], check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        found = json.loads(line)
        yield found["name"], found["found"]


def _python(root: Path) -> str:
    """Return the interpreter of an environment with the tools; build it if it is not there."""
    folder = root / "rivals"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists() or ready.read_text() != str(TOOLS):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *TOOLS.values()], check=True, env=inherited())
        ready.write_text(str(TOOLS))
    return str(python)


def theirs(job: Job, found: Sequence[Sequence[Any]]) -> Verdict:
    """Return the verdict of another tool."""
    names = [name for name, _ in found]
    right = any(_KINDS.get(name, frozenset()) & set(job.case.causes) for name in names)
    return Verdict(bool(names), any(is_critical for _, is_critical in found), right)


def table(said: Mapping[str, Sequence[tuple[Job, Verdict | None]]]) -> str:
    """Return the table: a row for each tool and half."""
    lines = ["| | half | planted | found | named | sound | warned of | critical |", "|---|---|---|---|---|---|---|---|"]
    for tool, pairs in said.items():
        name = f"{tool} {TOOLS.get(tool, '').partition('==')[2]}".strip()
        for half in (TUNE, REPORT):
            own = [(job, verdict) for job, verdict in pairs if job.case.half == half and verdict is not None]
            bad = [verdict for job, verdict in own if not job.case.is_sound]
            good = [verdict for job, verdict in own if job.case.is_sound]
            cells = [half, len(bad), sum(v.is_alarm for v in bad), sum(v.is_named for v in bad), len(good)]
            cells += [sum(v.is_alarm for v in good), sum(v.is_critical for v in good)]
            lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    failed = {tool: sum(verdict is None for _, verdict in pairs) for tool, pairs in said.items()}
    shown = ", ".join(f"{tool} {count}" for tool, count in failed.items() if count)
    return "\n".join([*lines, *(("", f"Runs of which a tool failed to say anything: {shown}.") if shown else ())])


def main(words: Sequence[str] | None = None) -> int:
    """Ask each tool, and print or write the table."""
    options = parser(__doc__)
    options.add_argument("--write", type=Path, help="the page that the table goes into")
    options.add_argument("--each", action="store_true", help="print what is said of each run of the half `tune`")
    add_place(options, root=ROOT, processes=1)
    given = options.parse_args(words)
    root = given.root.absolute()
    jobs = chosen(halves=[TUNE, REPORT], seeds=1, only=(), with_trainers=True)
    stored = [job for job in jobs if (job.folder(root) / RUN).exists()]
    logs = {job.name: rows for job in stored if (rows := rows_of(open_trial(str(job.folder(root) / RUN))))}
    asked = [job for job in stored if job.name in logs]
    judged = dict(
        zip(
            [job.name for job in asked],
            judge_all([job.folder(root) for job in asked], processes=given.processes),
            strict=True,
        )
    )
    found = dict(verdicts(logs, root))
    said: dict[str, list[tuple[Job, Verdict | None]]] = {tool: [] for tool in (_OURS, *TOOLS)}
    for job in asked:
        own = judged[job.name]
        is_critical = any(card.severity is Severity.CRITICAL for card in own.cards)
        said[_OURS].append((job, Verdict(is_found(own), is_critical, is_named(job, own))))
        for tool in TOOLS:
            answer = found[job.name][tool]
            said[tool].append((job, None if isinstance(answer, str) else theirs(job, answer)))
        if given.each and job.case.half == TUNE:
            print(job.name, *(f"{tool}: {found[job.name][tool]}" for tool in TOOLS), sep="\n    ")
    put(table(said), given.write, begin=BEGIN, end=END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
