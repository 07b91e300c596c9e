"""Two ranks (gloo), one of which sleeps in each step: who waits for whom, under DDP, FSDP and collectives by hand."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import torch.distributed as ranks

from tests.warm_python import WarmPython
from trackside.contracts.capture_request import CaptureRequest, capture_environment
from trackside.environment import inherited
from trackside.speed.performance.measured import Measured
from trackside.speed.performance.reading import measured_workers
from trackside.speed.performance.verdict import judge_speed, judged_workers
from trackside.speed.pytorch.collective_times import CollectiveTimer

SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist
import trackside.frameworks.shared.speed_facts_file as file

file.FIRST_FLUSH_SECONDS = 0.2  # steps are sampled early: this training is short
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.path.abspath(sys.argv[1]), rank=rank, world_size=2)
model = torch.nn.Linear(50, 10)
{wrapped}
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(40):
    if rank == 1:
        time.sleep(0.05)
    optimizer.zero_grad()
    model(torch.randn(8, 50)).square().mean().backward()
    {exchanged}
    optimizer.step()
dist.destroy_process_group()
"""
DDP = "model = torch.nn.parallel.DistributedDataParallel(model)"
FSDP2 = """
from torch.distributed.fsdp import fully_shard
fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
"""
FSDP1 = """
from torch.distributed.fsdp import FullyShardedDataParallel
model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
"""
BY_HAND = "[dist.all_reduce(parameter.grad) for parameter in model.parameters()]"
LATER = "[work.wait() for work in [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]]"


@pytest.mark.parametrize(
    ("wrapped", "exchanged", "names"),
    [
        pytest.param(DDP, "", set(), id="DDP measures by itself"),
        pytest.param(FSDP2, "", {"all_gather", "reduce_scatter"}, id="FSDP"),
        pytest.param(FSDP1, "", {"all_gather", "reduce_scatter"}, id="the first FSDP"),
        pytest.param("", BY_HAND, {"all_reduce"}, id="by hand"),
        pytest.param("", LATER, {"all_reduce"}, id="by hand, waited for later"),
    ],
)
def test_the_others_wait_for_the_rank_that_sleeps(
    tmp_path: Path, warm_python: WarmPython, wrapped: str, exchanged: str, names: set[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(wrapped=wrapped, exchanged=exchanged or "pass"))
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
    if exchanged:
        assert all(one.gradient_wait is None for one in workers.values())
        (cause, *_) = judge_speed(workers["worker_0"]).causes
        assert "a meeting of all ranks" in cause.headline
        assert "all_reduce(" in cause.lines[0].code
    else:
        assert_the_wait_is_known(workers)
    facts = workers["worker_0"].facts
    assert facts is not None
    found = {one.name: one for one in facts.exchanges}
    assert {name.removesuffix("_single").removesuffix("_tensor").removesuffix("_into") for name in found} == names
    assert all(0 < one.waited <= one.seconds * 1.5 for one in found.values())
    if names:
        assert sum(one.waited for one in found.values()) > 0.03
        assert 1 <= facts.sampled_steps <= 5


def assert_the_wait_is_known(workers: Mapping[str, Measured]) -> None:
    waits = {name: one.gradient_wait for name, one in workers.items()}
    assert all(wait is not None and wait.least_worker == "worker_1" for wait in waits.values())
    verdicts = dict(judged_workers(workers))
    assert verdicts["worker_0"].bottleneck.value == "straggler rank"
    assert "waits for worker_1" in verdicts["worker_0"].headline
    assert "straggler rank" not in [cause.kind for cause in verdicts["worker_1"].causes]


def test_a_collective_without_a_future_is_the_scripts_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a backend of somebody else may have them: nothing is raised in the training."""
    work = object()
    monkeypatch.setattr(ranks, "all_reduce", lambda tensor: work)
    ranks.init_process_group("gloo", init_method=f"file://{tmp_path}/ranks", rank=0, world_size=1)
    timer = CollectiveTimer()
    try:
        timer.start()
        assert ranks.all_reduce(torch.ones(1)) is work
        timer.stop()
    finally:
        ranks.destroy_process_group()
    assert ranks.all_reduce(torch.ones(1)) is work
