"""The timeline of a run: steps, phases, samples and findings on one clock."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.training_lib.exchange.timed_run import BACKWARD, DATA, FIRST_END, OPTIMIZER, SECONDS, write_timed_run
from trackside.cli import main
from trackside.contracts.errors import ConfigurationError
from trackside.exchange.timeline import STEP, WHOLE, FindingMark, Part, TimelineExport, export_timeline
from trackside.speed.performance.profile import open_profile
from trackside.trial.steps.selection import StepRange
from trackside.trial.trial import open_trial

STEPS = 20
MARK = FindingMark("data-starvation", "The training waits for its batches.", 7, "warning")


def exported(folder: Path, *, part: Part = WHOLE, marks: tuple[FindingMark, ...] = (), **run: Any) -> TimelineExport:
    uri = write_timed_run(folder / "run", steps=STEPS, **run)
    return export_timeline(uri, open_trial(uri), folder / "out", findings=marks, part=part)


def events_of(done: TimelineExport) -> list[dict[str, Any]]:
    document = json.loads(done.merged.read_text(encoding="utf-8"))
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def test_a_step_has_its_start_and_its_phases(tmp_path: Path) -> None:
    done = exported(tmp_path)
    events = [event for event in events_of(done) if event["ph"] == "X"]
    assert {event["cat"] for event in events} == {"step", "phase"}  # without one, readers of torch's traces fail
    steps = [event for event in events if event["tid"] == 1]
    assert [event["name"] for event in steps] == [f"step {step}" for step in range(1, STEPS)]
    assert [event["ts"] for event in steps] == pytest.approx([(k - 1) * 1e6 for k in range(1, STEPS)], abs=1)
    phases = {event["name"]: event["dur"] / 1e6 for event in events if event["tid"] == 2 and event["args"]["step"] == 4}
    rest = SECONDS - DATA - BACKWARD - OPTIMIZER
    assert phases == pytest.approx({"data": DATA, "rest": rest, "backward": BACKWARD, "optimizer": OPTIMIZER}, abs=1e-5)


def test_samples_and_findings_are_on_the_same_clock(tmp_path: Path) -> None:
    done = exported(tmp_path, marks=(MARK, FindingMark("hang", "Later.", 900, "warning")))
    events = events_of(done)
    (mark,) = [event for event in events if event["ph"] == "i"]
    assert (mark["name"], mark["s"], mark["args"]["message"]) == (MARK.rule, "g", MARK.message)
    step = next(event for event in events if event["name"] == "step 7")
    assert mark["ts"] == pytest.approx(step["ts"] + step["dur"], abs=1)
    samples = [event for event in events if event["ph"] == "C"]
    assert [event["args"]["value"] for event in samples] == [10.0 + second for second in range(1, STEPS)]
    assert samples[0]["ts"] == pytest.approx(SECONDS * 1e6, abs=1), "at the end of step 1"
    assert (done.samples, done.findings) == (STEPS - 1, 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_events_of_a_track_do_not_overlap(tmp_path: Path, workers: int) -> None:
    done = exported(tmp_path, workers=workers, evaluated=5)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in events_of(done):
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(tracks) == 2 * workers
    assert len(done.files) == workers
    for spans in tracks.values():
        assert all(one[1] <= other[0] + 0.01 for one, other in pairwise(spans))


@pytest.mark.parametrize(
    ("part", "steps"),
    [
        pytest.param(Part(StepRange(5, 9)), [5, 6, 7, 8], id="steps"),
        pytest.param(Part(since=3.0, until=5.0), [4, 5, 6], id="seconds"),
        pytest.param(Part(StepRange(5, 9), until=5.0), [5, 6], id="both"),
    ],
)
def test_a_part(tmp_path: Path, part: Part, steps: list[int]) -> None:
    done = exported(tmp_path, part=part)
    found = [event["args"]["step"] for event in events_of(done) if event["ph"] == "X" and event["tid"] == 1]
    assert found == steps
    assert done.steps == len(steps)


def test_the_original_form_is_named_by_its_end(tmp_path: Path) -> None:
    (file,) = exported(tmp_path).files
    end = round((FIRST_END + STEPS - 2) * 1e6)
    assert file.name == f"{end}_worker-0_pythontimeline.json"
    events = json.loads(file.read_text(encoding="utf-8"))
    assert events[0]["args"] == {"start_time_since_epoch_in_micros": round((FIRST_END - SECONDS) * 1e6)}
    assert {event["ph"] for event in events} == {"M", "X"}


def test_nothing_in_that_part_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no timed step"):
        exported(tmp_path, part=Part(StepRange(500, 600)))
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path: Path) -> None:
    uri = write_timed_run(tmp_path / "run", steps=STEPS)
    out = str(tmp_path / "out")
    result = CliRunner().invoke(main, ["export", uri, out, "--to", "timeline", "--steps", "3:6", "--seconds", "2.5:"])
    assert result.exit_code == 0
    assert "Wrote 2 steps, 2 samples and 0 findings to:" in result.stdout
    assert "https://ui.perfetto.dev" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--to", "timeline", "--seconds", "soon"], id="no range"),
        pytest.param(["--to", "timeline", "--steps", "-3"], id="no steps"),
        pytest.param(["--to", "parquet", "--seconds", "1:2"], id="of another target"),
    ],
)
def test_wrong_words(tmp_path: Path, options: list[str]) -> None:
    uri = write_timed_run(tmp_path / "run", steps=STEPS)
    assert CliRunner().invoke(main, ["export", uri, str(tmp_path / "out"), *options]).exit_code == 2


def test_a_profile_has_the_events_that_were_exported_into_its_run(tmp_path: Path) -> None:
    uri = write_timed_run(tmp_path / "run", steps=STEPS)
    profile = open_profile(uri)
    assert profile.events() == []
    export_timeline(uri, open_trial(uri), Path(uri, "profiler-output"))
    found = profile.events()
    assert [event.arguments for event in found if event.phase == STEP] == [
        {"step_num": str(step), "pid": "worker_0"} for step in range(1, STEPS)
    ]
    second = found[0].start / 1e6
    assert 0 < len(profile.events(start=second, end=second + SECONDS)) < len(found)
    assert profile.events(end=second - 1) == []
