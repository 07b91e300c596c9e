"""Runs the notebook's cells in the Python that has the real SageMaker SDK.

    python under_the_sdk.py CELLS.json LEFT.json PACE

Of the SDK two things are changed from outside, both of which belong to the machine, not to the program: where STS
answers (the SDK names AWS's own host in its code, which no setting redirects), and how fast its waiting goes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any

import sagemaker.session

STATUS_CELL = "DebugRuleEvaluationStatuses"
PATIENCE_SECONDS = 60.0


class QuickClock:
    """The module `time`, as the SDK uses it, going `pace` times as fast."""

    def __init__(self, pace: float) -> None:
        self._pace = pace

    def time(self) -> float:
        return time.time() * self._pace

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self._pace)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def main() -> None:
    source, target, pace = sys.argv[1:]
    sagemaker.session.sts_regional_endpoint = lambda region: os.environ["AWS_ENDPOINT_URL"]  # noqa: TID251 - a script
    if float(pace) != 1:
        sagemaker.session.time = QuickClock(float(pace))
    logging.getLogger("botocore").setLevel(logging.WARNING)  # it would tell each client's endpoint
    with open(source, encoding="utf-8") as opened:
        cells = json.load(opened)
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in cells:
        exec(cell, names)  # noqa: S102 - the notebook is what is run
        if STATUS_CELL in cell:
            until_all_is_judged(cell, names)
    left = {
        "role": names["role"],
        "bucket": names["bucket"],
        "job": names["job_name"],
        "statuses": names["description"].get(STATUS_CELL, []),
        "rule_job_summary": names["estimator"].latest_training_job.rule_job_summary(),
        "debugger_fields": sorted(name for name in names["description"] if "Debug" in name or "Profiler" in name),
        "tensors": names["trial"].tensor_names(),
        "loss_steps": names["loss_tensor"].steps(),
        "model": names["estimator"].model_data,
    }
    with open(target, "w", encoding="utf-8") as opened:
        json.dump(left, opened, default=str)


def until_all_is_judged(cell: str, names: dict[str, Any]) -> None:
    """A person runs the status cell again and again, until each rule has had its last word."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        statuses = [each["RuleEvaluationStatus"] for each in names["description"].get(STATUS_CELL, ())]
        if len(statuses) - statuses.count("InProgress") >= len(names["rules"]) or time.monotonic() > deadline:
            return
        time.sleep(0.5)
        exec(cell, names)  # noqa: S102 - as above


if __name__ == "__main__":
    main()
