"""`docs/capture.md`: its requests are requests, its Python runs, its launchers are tested, its figures are right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trackside
from trackside.capture.session import SIGTERM_SECONDS
from trackside.capture.writing.writer import WriterLimits
from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS, CaptureRequest
from trackside.records.capture_report import LostStep, decode_report

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "capture.md").read_text(encoding="utf-8")
LAUNCHERS = Path(__file__).with_name("test_launchers.py").read_text(encoding="utf-8")


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_request_on_the_page_is_one() -> None:
    (text,) = blocks("json")
    request = CaptureRequest.from_json(text)
    assert [collection.name for collection in request.collections] == ["losses", "gradients", "weights", "attention"]
    for fragment in re.findall(r'`("statistics": \{.*?\})`', PAGE):
        CaptureRequest.from_json(f'{{"collections": [], {fragment}}}')


def test_the_script_on_the_page_is_captured(tmp_path: Path) -> None:
    (text,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trial = trackside.open_trial(str(tmp_path / "runs" / "explicit"))
    assert len(trial.tensor("MSELoss_output_0").values) == 20
    assert len(trial.tensor("scalar/temperature").values) == 20
    assert trial.tensor("gradient/Linear_weight").steps == (0, 10)


def test_every_collection_is_named() -> None:
    assert all(f"`{name}`" in PAGE for name in BUILT_IN_COLLECTIONS)


@pytest.mark.parametrize("launcher", ["torchrun", "torch.distributed.run", "accelerate", "-m", "TRACKSIDE_RUN"])
def test_every_launcher_on_the_page_is_tested(launcher: str) -> None:
    assert launcher in PAGE
    assert launcher in LAUNCHERS


def test_the_figures_are_those_of_the_code() -> None:
    limits = WriterLimits()
    assert f"{limits.memory_bytes >> 20} MiB" in PAGE
    assert f"training waits {limits.block_seconds:g} s, once" in PAGE
    assert f"after {limits.first_retry_seconds:g}, 2, 4, ... {limits.last_retry_seconds:g} s" in PAGE
    assert f"within {SIGTERM_SECONDS:g} s" in PAGE


def test_the_report_on_its_page_is_one() -> None:
    page = (DOCS / "formats" / "capture-report.md").read_text(encoding="utf-8")
    (text,) = blocks("json", page)
    report = decode_report(text.encode(), key="")
    assert (report.saved_steps, report.lost_steps) == (120, 2)
    assert report.lost[0] == LostStep(17, "storage is slower than what is to be saved")


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (DOCS / link).exists(), link
