"""Several ranks go back at the same step, or none does; nothing waits for a rank that cannot."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.warm_python import WarmPython
from trackside.contracts.run.rescue import RescueRecord, RescueState
from trackside.environment import inherited

RANKS = 2
SCRIPT = """
import json, math, os, sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

kind, folder = sys.argv[1:]
rank = int(os.environ["RANK"])
dist.init_process_group(
    "gloo", timeout=timedelta(seconds=600), init_method=f"file://{folder}/meet", rank=rank, world_size=2
)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
target = nn.Linear(8, 1)
if kind.endswith("sharded"):
    from torch.distributed.fsdp import fully_shard
    used = fully_shard(net)
elif kind == "rows":
    from torch.distributed.fsdp import FullyShardedDataParallel
    used = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
elif kind == "each alone":
    used = net
else:
    used = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.Adam(used.parameters(), lr=0.01)
rows = [torch.randn(32, 8, generator=torch.Generator().manual_seed(2 * step + rank)) for step in range(240)]
losses = []
for step, batch in enumerate(rows):
    if rank == 1:
        if kind in ("batch of one rank", "one rank cannot", "batch, sharded") and step == 121:
            batch = batch * math.nan
        if kind == "one rank cannot" and step == 90:  # nothing of it can be kept
            def no(*_args, **_settings):
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
            torch._foreach_copy_ = no
        if kind == "weight of one rank" and step == 121:
            with torch.no_grad():
                net[2].weight[0, 3] = math.inf
    loss = (used(batch) - target(batch).detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = [float(value) for p in net.parameters() for value in getattr(p, "to_local", lambda: p)().detach().flatten()]
with open(f"{folder}/rank_{rank}.json", "w") as file:
    json.dump({"weights": weights, "loss": sum(losses[-20:]) / 20}, file)
dist.destroy_process_group()
"""


class Ended(NamedTuple):
    """The end of one rank: its final weights and loss, and the record of its rescues."""

    weights: list[float]
    loss: float
    record: RescueRecord | None


def _trained(python: WarmPython, folder: Path, kind: str, *, is_rescued: bool = True) -> list[Ended]:
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(SCRIPT)
    variables = {"TRACKSIDE_RUN": str(folder / "run"), "TRACKSIDE_RESCUE": "1"} if is_rescued else {}
    with ExitStack() as stack:
        environments = [{**inherited(), **variables, "WORLD_SIZE": "2", "RANK": str(rank)} for rank in range(RANKS)]
        processes = [
            stack.enter_context(python.start(script, kind, str(folder), env=environment))
            for environment in environments
        ]
        assert [process.wait() for process in processes] == [0, 0]
    return [_ended(folder, rank) for rank in range(RANKS)]


def _ended(folder: Path, rank: int) -> Ended:
    outcome: dict[str, Any] = json.loads((folder / f"rank_{rank}.json").read_text())
    path = folder / "run" / "rescue" / f"worker_{rank}.json"
    return Ended(
        outcome["weights"], outcome["loss"], RescueRecord.from_json(path.read_bytes()) if path.exists() else None
    )


@pytest.mark.parametrize("kind", ["batch of one rank", "weight of one rank", "batch, sharded"])
def test_a_fault_of_one_rank_takes_all_back_at_one_step(kind: str, warm_python: WarmPython, tmp_path: Path) -> None:
    first, second = _trained(warm_python, tmp_path / "run", kind)
    assert first.record is not None
    assert first.record == second.record
    assert first.record.state is RescueState.RESCUED, first.record
    assert len(first.record.tries) == 1
    assert first.weights == second.weights or "sharded" in kind
    twin = _trained(warm_python, tmp_path / "twin", "sound", is_rescued=False)[0]
    assert first.loss < 3 * twin.loss


@pytest.mark.parametrize("kind", ["sound", "sound, sharded"])
def test_sound_ranks_are_left_alone_to_the_bit(kind: str, warm_python: WarmPython, tmp_path: Path) -> None:
    plain = _trained(warm_python, tmp_path / "plain", kind, is_rescued=False)
    watched = _trained(warm_python, tmp_path / "watched", kind)
    assert watched == plain


def test_where_one_rank_cannot_nobody_goes_back(warm_python: WarmPython, tmp_path: Path) -> None:
    first, second = _trained(warm_python, tmp_path / "run", "one rank cannot")
    for each in (first, second):
        assert each.record is not None
        assert each.record.state is RescueState.OFF, each.record
        assert each.record.tries == ()
    assert str(first.loss) == str(second.loss) == "nan"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("rows", "several processes train, and no DistributedDataParallel has the weights"),
        ("each alone", "several processes train, and no DistributedDataParallel has the weights"),
    ],
)
def test_ranks_that_cannot_go_back_together_say_so(
    kind: str, reason: str, warm_python: WarmPython, tmp_path: Path
) -> None:
    for each in _trained(warm_python, tmp_path / "run", kind):
        assert each.record is not None
        assert (each.record.state, each.record.reason) == (RescueState.REFUSED, reason)
