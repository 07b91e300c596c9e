"""Every threshold of preset `calibrated` is scale-free, or has its reason in thresholds.md."""

from __future__ import annotations

import re
from pathlib import Path

from trackside.rules.catalogue import built_in_rules

PAGE = Path(__file__).with_name("thresholds.md")
ROW = re.compile(r"^\| `([a-z-]+\.[a-z_0-9]+)` \| [^|]+ \| [^|]{8,} \|$", re.MULTILINE)
WITH_A_UNIT = re.compile(
    r"\b(?:milli)?seconds\b|\bminutes\b|\bMiB\b|\babsolute\b|\binput of\b|\bdepth\b|\bvariance (?:above|below)\b"
)
SCALE_FREE = re.compile(
    # of something else: a share, a ratio, the run's own past
    r"\bshare\b|percent|\btimes\b|deviation|\bover (?:that|the|its|their|those)\b|relative|\bratio\b|multiple|purity"
    r"|distance of histograms|\bscale\b|cumulative sum"
    # a count: how much must have been seen
    r"|\b(?:steps?|samples|batches|losses|evaluations|fingerprints|measurements|passes|looks|labels|number of|calls"
    r"|importances|outliers|jumps)\b"
)  # fmt: skip


def test_each_is_scale_free_or_listed_with_a_reason() -> None:
    with_a_unit = {
        f"{rule_id}.{parameter.name}"
        for rule_id, rule in built_in_rules().items()
        for parameter in rule.parameters()
        if isinstance(parameter.default, (int, float)) and not isinstance(parameter.default, bool)
        if WITH_A_UNIT.search(parameter.help) or not SCALE_FREE.search(parameter.help)
    }
    assert sorted(ROW.findall(PAGE.read_text(encoding="utf-8"))) == sorted(with_a_unit)
