"""FSDP2 from its first shard to its last checkpoint: storages are freed and filled, and watching changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import trackside
from tests.warm_python import WarmPython
from trackside.contracts.capture_request import (
    BUILT_IN_COLLECTIONS,
    CaptureRequest,
    CollectionRequest,
    Schedule,
    StatisticsRequest,
)
from trackside.environment import inherited

RANKS = 2
EVERYTHING = CaptureRequest(
    tuple(CollectionRequest(name, Schedule(1)) for name in BUILT_IN_COLLECTIONS),
    statistics=StatisticsRequest(budget=1.0),
)

# `stale`: an optimizer that was made while the parameters were whole. They are freed between the steps, and get no
# gradient, so PyTorch leaves them alone.
SCRIPT = """
import hashlib, os, sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

kind, folder, rank = sys.argv[1], sys.argv[2], int(os.environ["RANK"])
dist.init_process_group(
    "gloo", timeout=timedelta(seconds=600), init_method=f"file://{folder}/meet", rank=rank, world_size=2
)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
offload = CPUOffloadPolicy(pin_memory=False) if kind == "offload" else OffloadPolicy()
for layer in (model[0], model[3]):
    fully_shard(layer, mesh=mesh, reshard_after_forward=kind != "whole-in-between", offload_policy=offload)
fully_shard(model, mesh=mesh, offload_policy=offload)
optimizers = []
if kind == "stale":
    for layer in (model, model[0], model[3]):
        layer.unshard()
    held = list(model.parameters())
    optimizers.append(torch.optim.SGD(held, lr=0.1, momentum=0.9))
    for layer in (model, model[0], model[3]):
        layer.reshard()
    print("freed", sum(p.untyped_storage().nbytes() == 0 for p in held), file=sys.stderr)
optimizers.append(torch.optim.AdamW(model.parameters(), lr=0.01))
torch.manual_seed(1 + rank)

def step(number):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.full_tensor().item()

losses = [step(number) for number in range(4)]
if kind == "saved":
    held, moments = get_state_dict(model, optimizers[-1])
    checkpoint.save({"model": held, "optimizer": moments}, checkpoint_id=f"{folder}/checkpoint")
    losses += [step(number) for number in range(2)]
    held, moments = get_state_dict(model, optimizers[-1])
    stored = {"model": held, "optimizer": moments}
    checkpoint.load(stored, checkpoint_id=f"{folder}/checkpoint")
    set_state_dict(model, optimizers[-1], model_state_dict=stored["model"], optim_state_dict=stored["optimizer"])
model.eval()
with torch.no_grad():
    model(torch.ones(2, 6))
model.train()
losses += [step(number) for number in range(4)]
whole = [value.full_tensor() if hasattr(value, "full_tensor") else value for value in model.state_dict().values()]
weights = b"".join(value.detach().contiguous().numpy().tobytes() for value in whole)
print(hashlib.sha256(weights).hexdigest(), losses, torch.rand(1).item())
dist.barrier()
dist.destroy_process_group()
"""

Train = Callable[..., tuple[list[str], list[str]]]


@pytest.fixture(scope="module")
def train(warm_python: WarmPython, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Trains on both ranks. Returns what each printed, and what each logged."""
    script = tmp_path_factory.mktemp("script") / "train.py"
    script.write_text(SCRIPT)

    def run(kind: str, folder: Path, run: Path | None = None) -> tuple[list[str], list[str]]:
        folder.mkdir()
        captured = {"TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": EVERYTHING.to_json()} if run else {}
        with ExitStack() as stack:
            out = [stack.enter_context((folder / f"out-{rank}").open("w+b")) for rank in range(RANKS)]
            err = [stack.enter_context((folder / f"err-{rank}").open("w+b")) for rank in range(RANKS)]
            ranks = [
                stack.enter_context(
                    warm_python.start(
                        script, kind, str(folder), stdout=out[rank], stderr=err[rank],
                        env={**inherited(), **captured, "WORLD_SIZE": str(RANKS), "RANK": str(rank)},
                    )
                )
                for rank in range(RANKS)
            ]  # fmt: skip
            codes = [rank.wait() for rank in ranks]
        said = [(folder / f"err-{rank}").read_text() for rank in range(RANKS)]
        assert codes == [0, 0], said
        return [(folder / f"out-{rank}").read_text() for rank in range(RANKS)], said

    return run


@pytest.mark.parametrize("kind", ["plain", "whole-in-between", "offload", "saved", "stale"])
def test_watching_changes_nothing(kind: str, train: Train, tmp_path: Path) -> None:
    bare, _ = train(kind, tmp_path / "bare")
    watched, said = train(kind, tmp_path / "watched", tmp_path / "run")
    assert watched == bare
    assert not [line for text in said for line in text.splitlines() if "is no longer done" in line]
    if kind == "stale":
        assert all("freed 8" in text for text in said), "else the test shows nothing"
    trial = trackside.open_trial(str(tmp_path / "run"))
    assert trial.tensor_names(collection="losses")
    assert trial.columns("gradient/Sequential_0.weight", "l2", last_step=10**9, mode="TRAIN"), "of the shards"
