"""Synthesis: silent, content, and done once."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from stacks.assembly import CDK, PRINTED, SynthesisError, assembly
from stacks.paths import ROOT


def test_the_same_sources_are_synthesized_once(synthesized: Path, context: Mapping[str, str]) -> None:
    made = synthesized.stat().st_mtime_ns
    assert assembly(context) == synthesized
    assert synthesized.stat().st_mtime_ns == made


def test_synthesis_prints_no_warning(synthesized: Path) -> None:
    printed = (synthesized / PRINTED).read_text().lower()
    assert "warn" not in printed
    assert "deprecat" not in printed


def test_cdk_nag_finds_nothing(synthesized: Path) -> None:
    report = json.loads((synthesized / "validation-report.json").read_text())
    assert [violation for each in report["pluginReports"] for violation in each["violations"]] == []


def test_cdk_nag_does_look_and_fails_the_synthesis(tmp_path: Path) -> None:
    """The same app without a single acknowledgement: every one of them is still needed, and both packs are at work."""
    app = (
        "import runpy, stacks.constructs.acknowledge as module\n"
        "module.acknowledge = lambda construct, reasons: None\n"
        "runpy.run_path('app.py', run_name='__main__')\n"
    )
    command = [
        str(CDK),
        "synth",
        "--quiet",
        "--app",
        f"{sys.executable} -c {shlex.quote(app)}",
        "--output",
        str(tmp_path),
    ]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode != 0
    found = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    rules = {violation["ruleName"].partition("[")[0] for report in found for violation in report["violations"]}
    assert rules == {
        "AwsSolutions-DDB3",
        "AwsSolutions-IAM5",
        "AwsSolutions-L1",
        "AwsSolutions-SQS3",
        "Serverless-LambdaDLQ",
        "Serverless-LambdaEventSourceMappingDestination",
        "Serverless-LambdaLatestVersion",
        "Serverless-SQSRedrivePolicy",
    }


def test_every_acknowledged_finding_has_its_reason(synthesized: Path) -> None:
    reasons = []
    for path in synthesized.glob("*.metadata.json"):
        for entries in json.loads(path.read_text()).values():
            for entry in entries:
                if "acknowledged" in entry["type"].lower():
                    reasons += entry["data"].values()
    assert reasons
    assert all(isinstance(reason, str) and len(reason) > 15 for reason in reasons)


def test_a_wrong_setting_is_said_without_a_traceback() -> None:
    with pytest.raises(SynthesisError) as raised:
        assembly({"trackside:evaluator_volume_gb": "none"})
    assert "trackside:evaluator_volume_gb: is 'none'" in str(raised.value)
    assert "Traceback" not in str(raised.value)
