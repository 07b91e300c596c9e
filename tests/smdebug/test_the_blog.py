"""The analysis code that the blog post shows, on runs of ours and of the real smdebug, read by both.

On a run that has its names it runs as it stands; on a run of the blog's own training script, whose names and place it
does not know, with the fewest changes.
"""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.smdebug.s3_here import LocalS3, local_s3
from tests.smdebug.sides import HERE, ours, theirs
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.run_layout import END_MARKER_KEY, collections_key
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.step_file import encode_step, write_step
from trackside.storage.s3 import S3Store

SAMPLES = re.findall(r"```python\n(.*?)```", (HERE / "the_blog.txt").read_text("utf-8"), re.DOTALL)
BUCKET = "my-training-bucket"
# Step -> loss, gradient; every 2nd step was saved. All are exact as float32.
VALUES = {step: (2.0 ** -(step // 2), [[-step / 4, 1.5], [0.125, step]]) for step in range(0, 30, 2)}


@pytest.fixture(scope="module")
def s3() -> Iterator[LocalS3]:
    with local_s3() as found:
        found.client().create_bucket(Bucket=BUCKET)
        yield found


def write_with_ours(s3: LocalS3, prefix: str) -> None:
    store = S3Store(BUCKET, prefix, client=s3.client())
    for step, (loss, gradient) in VALUES.items():
        tensors = [
            ("CrossEntropyLoss_output_0", np.array(loss, "f4")),
            ("gradient/Linear0.weight", np.array(gradient, "f4")),
        ]
        at = {"step": step, "mode": "TRAIN", "mode_step": step, "worker": "worker_0", "wall_time": 1.0}
        write_step(store, encode_step(tensors, **at))  # type: ignore[arg-type]  # a dict of keywords
    collections = [
        CollectionRecord("losses", ("[Ll]oss_(?!input).*output",)),
        CollectionRecord("gradients", ("^gradient",)),
    ]
    store.put(collections_key("worker_0"), encode_collections(collections, num_workers=1))
    store.put(END_MARKER_KEY, b"")


def expected() -> Iterator[str]:
    """What the samples print, worked out without NumPy."""
    yield "Available tensors:"
    yield "  CrossEntropyLoss_output_0"
    yield "  gradient/Linear0.weight"
    yield ""
    yield "Loss values across 15 steps:"
    yield "  Step 0: 1.000000"
    yield "  Step 20: 0.000977"
    for step in (20, 22, 24, 26, 28):
        values = [value for row in VALUES[step][1] for value in row]
        yield f"Step {step}:"
        yield f"  Mean: {statistics.fmean(values):.8f}"
        yield f"  Std:  {np.float32(statistics.pstdev(values)):.8f}"
        yield f"  Max:  {max(map(abs, values)):.8f}"
        yield f"  Min:  {min(map(abs, values)):.8f}"


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_the_samples_run_as_they_stand(s3: LocalS3, smdebug_python: Path, tmp_path: Path, writer: str) -> None:
    assert [len(sample.splitlines()) for sample in SAMPLES] == [18, 12]
    real = theirs(smdebug_python, **s3.environment)
    prefix = f"debugger-output/{writer}/debug-output"
    if writer == "ours":
        write_with_ours(s3, prefix)
    else:
        real.run(HERE / "write_blog_run.py", f"s3://{BUCKET}/{prefix}", json.dumps(VALUES))
    script = tmp_path / "analysis.py"
    script.write_text("\n".join([f"bucket, job_name = {BUCKET!r}, {writer!r}", *SAMPLES]), "utf-8")
    said = ours(**s3.environment).run(script)
    assert said.splitlines() == list(expected())
    assert said == real.run(script)


# What the sample does not know of the training script that stands beside it: a BCELoss and a Sequential. And that this
# run lies on disk.
SMALLEST_CHANGES = {
    "CrossEntropyLoss_output_0": "BCELoss_output_0",
    "gradient/Linear0.weight": "gradient/Sequential_0.weight",
    "s3://{bucket}/debugger-output/{job_name}/debug-output": "{bucket}/{job_name}/debug-output",
}
INTERVALS = {"losses": 1, "gradients": 2}


def train_under_trackside(folder: Path) -> None:
    collections = tuple(CollectionRequest(name, Schedule(interval)) for name, interval in INTERVALS.items())
    request = CaptureRequest(collections).to_json()
    ours(TRACKSIDE_RUN=str(folder), TRACKSIDE_CAPTURE_REQUEST=request).run(HERE / "blog_training.py")
    assert (folder / "debug-output" / END_MARKER_KEY).exists(), "nothing was captured"


def train_under_smdebug(folder: Path, smdebug_python: Path) -> None:
    collections = [
        {"CollectionName": name, "CollectionParameters": {"save_interval": str(interval)}}
        for name, interval in INTERVALS.items()
    ]
    configuration = folder.with_suffix(".json")
    out = {"LocalPath": str(folder / "debug-output"), "CollectionConfigurations": collections}
    configuration.write_text(json.dumps(out), "utf-8")
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    real = theirs(smdebug_python, SMDEBUG_CONFIG_FILE_PATH=str(configuration))
    real.run(HERE / "blog_training.py", str(Path(torch.origin).parents[1]))


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_on_the_blogs_own_training_it_runs_with_the_fewest_changes(
    smdebug_python: Path, tmp_path: Path, writer: str
) -> None:
    if writer == "ours":
        train_under_trackside(tmp_path / writer)
    else:
        train_under_smdebug(tmp_path / writer, smdebug_python)
    code = "\n".join([f"bucket, job_name = {str(tmp_path)!r}, {writer!r}", *SAMPLES])
    for before, after in SMALLEST_CHANGES.items():
        assert code.count(before) == 1
        code = code.replace(before, after)
    script = tmp_path / "analysis.py"
    script.write_text(code, "utf-8")
    said = ours().run(script)
    assert said == theirs(smdebug_python).run(script)
    indexes = [path.read_text("utf-8") for path in (tmp_path / writer / "debug-output").glob("index/*/*.json")]
    steps = sum('"BCELoss_output_0"' in index for index in indexes)
    assert steps >= 24, "two epochs of twelve batches, whatever is saved of the evaluation"
    assert f"Loss values across {steps} steps:" in said
    assert len(re.findall(r"^  Step \d+: \d\.\d{6}$", said, re.MULTILINE)) == -(-steps // 10)
    assert len(re.findall(r"^  (?:Mean|Std|Max|Min): ", said, re.MULTILINE)) == 5 * 4
