"""Two ranks of DistributedDataParallel (gloo), one of which sleeps in each step: who waits for whom."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.warm_python import WarmPython
from trackside.contracts.capture_request import CaptureRequest, capture_environment
from trackside.environment import inherited
from trackside.performance.reading import measured_workers
from trackside.performance.verdict import judged_workers

SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.path.abspath(sys.argv[1]), rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(50, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(40):
    if rank == 1:
        time.sleep(0.05)
    optimizer.zero_grad()
    model(torch.randn(8, 50)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def test_the_others_wait_for_the_rank_that_sleeps(tmp_path: Path, warm_python: WarmPython) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run = tmp_path / "run"
    environment = {**inherited(), **capture_environment(str(run), CaptureRequest())}
    for attempt in range(3):  # gloo's own threads end a rank now and then, without us too
        ranks = [
            warm_python.start_captured(
                script, f"meet-{attempt}", cwd=tmp_path, env={**environment, "RANK": str(rank), "WORLD_SIZE": "2"}
            )
            for rank in (0, 1)
        ]
        ended = [rank.finish() for rank in ranks]
        if not any("terminate called without" in done.stderr for done in ended):
            break
        shutil.rmtree(run, ignore_errors=True)
    assert [done.returncode for done in ended] == [0, 0], [done.stderr[-2000:] for done in ended]
    workers = measured_workers(str(run))
    waits = {name: one.gradient_wait for name, one in workers.items()}
    assert all(wait is not None and wait.least_worker == "worker_1" for wait in waits.values())
    verdicts = dict(judged_workers(workers))
    assert verdicts["worker_0"].bottleneck.value == "straggler rank"
    assert "waits for worker_1" in verdicts["worker_0"].headline
    assert "straggler rank" not in [cause.kind for cause in verdicts["worker_1"].causes]
