"""`trackside report`: what the page says, that no name becomes markup, and that a browser runs it without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.patience import HANGS_SECONDS
from tests.training_lib.local.verdicts import finding, issue, no_issue
from tests.training_lib.views.report.charts.test_markup import seen
from trackside.cli import main
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY, VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Verdict
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_facts, write_statistics, write_tensors

LOSS = "CrossEntropyLoss_output_0"
HOSTILE = "gradient/Net_</script><img src=x onerror=alert(1)>.\"'weight"


def write_run(*, verdicts: tuple[Verdict, ...] = (), steps: int = 40, broken_at: int | None = None) -> None:
    run = RunLocation(".trackside/runs/a")
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {LOSS: 2.0})
    losses = {step: math.nan if step == broken_at else 2.0 - step / steps for step in range(steps)}
    numbers = {LOSS: {"mean": losses}}
    for place, name in enumerate((HOSTILE, "gradient/Net_fc.bias")):
        numbers[name] = {"l2": {step: 10.0 ** -(place + step / steps) for step in range(0, steps, 4)}}
    write_statistics(LocalStore(run.statistics), numbers)
    request = RuleRequest((RuleConfiguration("vanishing-gradient"), RuleConfiguration("loss-not-decreasing")))
    (Path(run.uri) / RULE_REQUEST_KEY).write_text(request.to_json())
    LocalStore(run.rule_output).put(VERDICTS_KEY, "".join(f"{v.to_json()}\n" for v in verdicts).encode())
    end_run(tensors)


def report(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["report", *arguments])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


ISSUE = issue(findings=(finding(HOSTILE),))


def test_a_file_is_written_and_named() -> None:
    write_run(verdicts=(ISSUE,))
    assert re.fullmatch(r"a-report\.html: \d+ kB\. Open it in a browser\.\n", report("a"))
    assert report("a", "--output", "-") == Path("a-report.html").read_text("utf-8")
    assert [path.name for path in Path().iterdir() if path.name != ".trackside"] == ["a-report.html"]


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        pytest.param((ISSUE,), "✖ ", id="issue"),
        pytest.param((no_issue("vanishing-gradient"),), "✔ No issue: ", id="no-issue"),
    ],
)
def test_the_first_sentence_is_the_verdict(verdicts: tuple[Verdict, ...], says: str) -> None:
    write_run(verdicts=verdicts)
    verdict = re.search(r'<p class="verdict[^>]*>([^<]*)', report("a", "--output", "-"))
    assert verdict is not None
    assert verdict[1].startswith(says)


def test_a_name_never_becomes_markup_and_nothing_is_loaded() -> None:
    write_run(verdicts=(ISSUE,))
    page = report("a", "--output", "-")
    found = seen(page)
    assert [attributes for name, attributes in found.elements if name == "script"] == [{}]
    assert not [name for name, attributes in found.elements if any(key.startswith("on") for key in attributes)]
    addresses = [a for _, each in found.elements for key in ("src", "href") if (a := each.get(key))]
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in addresses)
    assert HOSTILE in found.text
    for kind in ("script", "style"):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page.replace("&#x27;", "'")


@pytest.mark.parametrize(("broken_at", "says"), [(None, False), (10, True)])
def test_numbers_that_are_not_finite_are_told(broken_at: int | None, says: bool) -> None:
    write_run(broken_at=broken_at)
    page = report("a", "--output", "-")
    assert ("not finite from step 10 on" in page) is says
    assert ('class="broken"' in page) is says


@pytest.mark.parametrize(
    ("script", "says"),
    [
        pytest.param("/home/me/train.py", "/home/me/train.py", id="a-file"),
        pytest.param("", "a notebook, or not known", id="none"),
        pytest.param("<b>.py", "<b>.py", id="a-hostile-name"),
    ],
)
def test_the_script_of_a_run_is_named_or_said_to_be_none(script: str, says: str) -> None:
    write_run()
    tensors = LocalStore(RunLocation(".trackside/runs/a").tensors)
    write_facts(tensors, ModelFacts(program=ProgramFacts(script=script, framework="pytorch")))
    assert f"Script{says}" in "".join(seen(report("a", "--output", "-")).text.split("\n"))


def test_a_file_that_cannot_be_written_is_a_clear_error() -> None:
    write_run()
    result = CliRunner().invoke(main, ["report", "a", "--output", "nowhere/b.html"])
    assert result.exit_code == 2
    assert "nowhere/b.html cannot be written: No such file or directory." in result.stderr
    assert "Name a file in a folder that exists." in result.stderr


def test_markdown_says_the_same_in_short_and_obeys_no_name() -> None:
    write_run(verdicts=(ISSUE,))
    text = report("a", "--format", "markdown")
    lines = text.splitlines()
    assert lines[0] == "## a"
    assert lines[2].startswith("**✖ ")
    assert "### ✖ CRITICAL  vanishing-gradient" in lines
    assert "<script>" not in text
    assert "<img" not in text.replace("\\<img", "")
    assert all(line.count("|") - line.count("\\|") == 3 for line in lines if line.startswith("| observed"))


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_runs_its_script_under_its_own_policy(tmp_path: Path) -> None:
    write_run(verdicts=(ISSUE,), broken_at=10)
    report("a")
    browser = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    browser += ["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"]
    address = (tmp_path / "a-report.html").as_uri()
    done = subprocess.run([*browser, address], capture_output=True, text=True, check=True, timeout=HANGS_SECONDS)
    charts = [attributes for name, attributes in seen(done.stdout).elements if attributes.get("class") == "chart"]
    assert charts
    assert all(chart["tabindex"] == "0" for chart in charts)  # set by the script: the policy lets it run
    assert all(json.loads(str(chart["data-points"])) for chart in charts)
    assert "CONSOLE" not in done.stderr  # no error, and nothing that the policy refused
