"""What three other tools say of logs of reinforcement learning. Runs where they are installed, without Trackside.

    python rival_verdicts.py LOGS    # a line of JSON for each: {"name": ..., "rows": [{"step": 0, "reward": 0.1}, ...]}

Prints a line of JSON for each log: by tool a list of [finding, is_critical] of the level of a warning or above.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]
Verdicts = list[list[Any]]  # of each finding its name, and whether it is critical

_RLPROBE = {  # as its callback for TRL has them
    "reward": "reward_mean",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "zero_variance_group_frac",
    "kl": "kl_mean",
    "entropy": "entropy_mean",
    "clip_ratio/region_mean": "clip_fraction",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "completions/mean_length": "completion_len_mean",
    "completions/clipped_ratio": "truncation_rate",
}
_RLWATCH = {
    "entropy": "entropy",
    "kl": "kl_divergence",
    "reward": "reward_mean",
    "reward_std": "reward_std",
    "loss": "loss",
    "grad_norm": "grad_norm",
}


def by_rl_doctor(rows: Rows) -> Verdicts:
    from rl_doctor import diagnose, run_from_records
    from rl_doctor.detectors.base import Severity

    found = diagnose(run_from_records(rows)).findings
    return [[one.detector, one.severity is Severity.CRITICAL] for one in found if one.severity >= Severity.WARNING]


def by_rlwatch(rows: Rows) -> Verdicts:
    from rlwatch.config import RLWatchConfig
    from rlwatch.detectors import DetectorSuite

    suite = DetectorSuite(RLWatchConfig())
    found: dict[str, bool] = {}
    for row in rows:
        given = {own: row[name] for name, own in _RLWATCH.items() if name in row}
        for alert in suite.check_step(row["step"], **given):
            found[alert.detector] = found.get(alert.detector, False) or alert.severity == "critical"
    return [[name, is_critical] for name, is_critical in found.items()]


def by_rlprobe(rows: Rows) -> Verdicts:
    from rlprobe.doctor import RunView, diagnose_view
    from rlprobe.schemas import RunManifest, StepRecord

    manifest = RunManifest(run_id="run", created_at="2026-11-30T00:00:00Z", algorithm="grpo")
    records = []
    for row in rows:
        known = {own: row[name] for name, own in _RLPROBE.items() if name in row}
        parts = {name.split("/")[1]: value for name, value in row.items() if name.startswith("rewards/")}
        records.append(StepRecord(step=row["step"], reward_components=parts, **known))
    found = diagnose_view(RunView(manifest, records))
    return [[one.signature_id, one.severity == "critical"] for one in found if one.severity != "info"]


TOOLS: dict[str, Callable[[Rows], Verdicts]] = {"rl-doctor": by_rl_doctor, "rlwatch": by_rlwatch, "rlprobe": by_rlprobe}


def main(path: str) -> None:
    for line in Path(path).read_text().splitlines():
        log = json.loads(line)
        found: dict[str, Verdicts | str] = {}
        for tool, verdicts in TOOLS.items():
            try:
                found[tool] = verdicts(log["rows"])
            except Exception as error:  # noqa: BLE001 - of another's tool: no verdict
                found[tool] = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps({"name": log["name"], "found": found}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
