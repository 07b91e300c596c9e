"""The analysis code that the blog post shows runs as it stands, on S3, on runs of ours and of the real smdebug."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.smdebug.s3_here import LocalS3, local_s3
from tests.smdebug.sides import HERE, ours, theirs
from trackside.contracts.run_layout import END_MARKER_KEY, collections_key
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.step_file import encode_step, write_step
from trackside.storage.s3 import S3Store

SAMPLES = re.findall(r"```python\n(.*?)```", (HERE / "the_blog.md").read_text("utf-8"), re.DOTALL)
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
