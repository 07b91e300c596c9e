"""Several processes: every rank is a worker of its own, gradients are the reduced ones, shards come together again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import trackside
from tests.warm_python import WarmPython
from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS
from trackside.contracts.errors import ConfigurationError
from trackside.environment import inherited

RANKS = 2
KINDS = ("ddp", "fsdp1", "fsdp1-rows", "fsdp2")
WORKERS = ("worker_0", "worker_1")

# An ordinary script; it notes for each step what its loop sees itself: the oracle.
SCRIPT = """
import contextlib, hashlib, os, sys
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 5)
        self.drop = nn.Dropout(0.2)
        self.fc2 = nn.Linear(5, 3)
        self.gain_weight = nn.Parameter(torch.ones(1))

    def forward(self, values):
        return self.gain_weight * self.fc2(self.drop(torch.relu(self.fc1(values))))

def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

def main(kind, folder):
    os.makedirs(folder, exist_ok=True)
    where = {"init_method": f"file://{folder}/meet", "rank": int(os.environ["RANK"]), "world_size": 2}
    where = {} if "MASTER_PORT" in os.environ else where
    dist.init_process_group("gloo", timeout=timedelta(seconds=600), **where)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Net()
    if kind == "ddp":
        used = nn.parallel.DistributedDataParallel(model)
    elif kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        fully_shard(model.fc1)
        used = fully_shard(model)
    elif kind in ("fsdp1", "fsdp1-rows"):
        from torch.distributed.fsdp import FullyShardedDataParallel
        settings = {"use_orig_params": kind == "fsdp1", "device_id": torch.device("cpu")}
        model.fc1 = FullyShardedDataParallel(model.fc1, **settings)
        used = FullyShardedDataParallel(model, **settings)
    optimizer = torch.optim.Adam(used.parameters(), lr=0.01)
    torch.manual_seed(rank)
    losses, notes = [], {}
    for step in range(3):
        loss = nn.functional.cross_entropy(used(torch.randn(4, 6)), torch.randint(0, 3, (4,)))
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        seen = model
        with contextlib.ExitStack() as stack:
          if "fsdp1" in kind:
            with_grads = kind == "fsdp1"
            stack.enter_context(used.summon_full_params(used, writeback=False, with_grads=with_grads))
            seen = used
          for name, parameter in seen.named_parameters():
            name = name.replace("_fsdp_wrapped_module.", "")
            notes[f"{step}/Net_{name}"] = whole(parameter).detach().clone().numpy()
            if kind != "fsdp1-rows":
                notes[f"{step}/gradient/Net_{name}"] = whole(parameter.grad).clone().numpy()
        optimizer.step()
    np.savez(f"{folder}/rank{rank}.npz", losses=np.array(losses, np.float32), **notes)
    state = b"".join(whole(value).detach().clone().numpy().tobytes() for value in model.parameters())
    with open(f"{folder}/rank{rank}.txt", "w") as file:
        print(hashlib.sha256(state).hexdigest(), losses, torch.rand(1).item(), file=file)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    for kind in sys.argv[1].split(","):
        main(kind, f"{sys.argv[2]}/{kind}")
"""

Notes = dict[str, np.ndarray]


class Ended(NamedTuple):
    """What each rank printed at its end (weights, losses, a random number), and what it noted of each step."""

    printed: list[str]
    notes: list[Notes]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "train.py"
    path.write_text(SCRIPT)
    return path


Ends = list[tuple[int, str]]


@pytest.fixture(scope="module")
def train_ranks(source: Path, warm_python: WarmPython) -> Callable[[str, Path, list[dict[str, str]]], Ends]:
    """Return code and stderr of each rank."""

    def train(kinds: str, folder: Path, environments: list[dict[str, str]]) -> Ends:
        for meeting in folder.glob("*/meet"):
            meeting.unlink()
        with ExitStack() as stack:
            said = [stack.enter_context((folder / f"said-{rank}").open("w+b")) for rank in range(RANKS)]
            processes = [
                stack.enter_context(
                    warm_python.start(
                        source, kinds, str(folder), stderr=said[rank],
                        env=environment | {"WORLD_SIZE": str(RANKS), "RANK": str(rank)},
                    )
                )
                for rank, environment in enumerate(environments)
            ]  # fmt: skip
            codes = [process.wait() for process in processes]
        return [(code, (folder / f"said-{rank}").read_text()) for rank, code in enumerate(codes)]

    return train


def _was_aborted_by_gloo(ends: Ends) -> bool:
    """True where a bare rank ended in C++, which gloo's threads cause now and then at the end of a process."""
    return any(code == -signal.SIGABRT and "terminate called without" in said for code, said in ends)


@pytest.fixture(scope="module")
def together(
    train_ranks: Callable[..., Ends], request_json: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Ended]:
    """Trains as two processes, of which rank r saves everything each `intervals[r]` steps."""

    def run_it(kind: str, run: Path, *, intervals: tuple[int, int] = (1, 1), says: str = "nothing") -> Ended:
        folder = tmp_path_factory.mktemp(kind)
        requests = [request_json(**dict.fromkeys(BUILT_IN_COLLECTIONS, interval)) for interval in intervals]
        ends = train_ranks(kind, folder, [_environment(run, request) for request in requests])
        assert [code for code, _ in ends] == [0] * RANKS, ends
        lines = [line for _, said in ends for line in said.splitlines() if line.startswith("trackside: ")]
        assert all(says in line for line in lines)
        assert len(lines) == (0 if says == "nothing" else RANKS)
        return _ended(folder / kind)

    return run_it


@pytest.fixture(scope="module")
def bare(train_ranks: Callable[..., Ends], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Of each kind, trained without us; all in one pair of processes."""
    folder = tmp_path_factory.mktemp("bare")
    environments = [_environment(None, "")] * RANKS
    ends = train_ranks(",".join(KINDS), folder, environments)
    if _was_aborted_by_gloo(ends):
        ends = train_ranks(",".join(KINDS), folder, environments)
    assert [code for code, _ in ends] == [0] * RANKS, ends
    return {kind: _ended(folder / kind) for kind in KINDS}


def _environment(run: Path | None, request: str) -> dict[str, str]:
    bare = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    ours = {"TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": request} if run is not None else {}
    return {**bare, "OMP_NUM_THREADS": "1", **ours}


def _ended(folder: Path) -> Ended:
    printed = [(folder / f"rank{rank}.txt").read_text() for rank in range(RANKS)]
    return Ended(printed, [dict(np.load(folder / f"rank{rank}.npz")) for rank in range(RANKS)])


def by_step(notes: Notes) -> Iterator[tuple[int, str, np.ndarray]]:
    for key, value in notes.items():
        step, _, name = key.partition("/")
        if name:
            yield int(step), name, value


def test_torchrun_ddp_records_reduced_gradients_on_every_rank_and_changes_no_bit(
    source: Path, bare: dict[str, Ended], request_json: Callable[..., str], tmp_path: Path
) -> None:
    """Zero script change under `torchrun`, whose own process writes nothing."""
    run = tmp_path / "run"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    environment = _environment(run, request_json(**dict.fromkeys(BUILT_IN_COLLECTIONS, 1)))
    done = subprocess.run(
        [*torchrun, source, "ddp", tmp_path],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Trackside" not in done.stderr
    printed, notes = _ended(tmp_path / "ddp")
    assert printed == bare["ddp"].printed
    trial = trackside.open_trial(str(run))
    assert trial.workers == WORKERS
    assert trial.steps(mode="TRAIN") == (0, 1, 2)
    for worker, noted in zip(WORKERS, notes, strict=True):
        for step, name, value in by_step(noted):
            np.testing.assert_array_equal(trial.value(name, step=step, worker=worker), value, err_msg=name)
        losses = trial.tensor("CrossEntropyLoss_output_0", worker=worker).values
        np.testing.assert_array_equal(losses, noted["losses"])
    assert notes[0]["losses"].tolist() != notes[1]["losses"].tolist()
    gradients = [trial.tensor("gradient/Net_fc1.weight", worker=worker).values for worker in WORKERS]
    np.testing.assert_array_equal(*gradients)


@pytest.fixture(scope="module")
def fsdp_run(together: Callable[..., Ended], bare: dict[str, Ended], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of FSDP2 of which rank 1 saves steps 0, 1 and 2, and rank 0 only 0 and 2.

    Were there a collective in a hook, rank 1 would wait at step 1 for what never comes.
    """
    run = tmp_path_factory.mktemp("fsdp") / "run"
    assert together("fsdp2", run, intervals=(2, 1)).printed == bare["fsdp2"].printed
    return run


def test_fsdp2_parts_come_together_when_they_are_read(fsdp_run: Path, bare: dict[str, Ended]) -> None:
    """`fully_shard` changes the class to `FSDPNet`; the names stay those of the model as it was written."""
    trial = trackside.open_trial(str(fsdp_run))
    notes = bare["fsdp2"].notes[0]
    for step, name, value in by_step(notes):
        if step != 1:
            whole = trial.tensor(name).value(step)
            assert whole.shape == value.shape
            np.testing.assert_array_equal(whole, value, err_msg=name)
    stacked = trial.tensor("gradient/Net_fc1.weight", steps="0:3:2").values
    np.testing.assert_array_equal(stacked, [notes[f"{step}/gradient/Net_fc1.weight"] for step in (0, 2)])


def test_fsdp2_one_worker_is_its_part(fsdp_run: Path, bare: dict[str, Ended]) -> None:
    trial = trackside.open_trial(str(fsdp_run))
    whole = bare["fsdp2"].notes[0]["0/Net_fc1.weight"]
    parts = [trial.value("Net_fc1.weight", step=0, worker=worker) for worker in WORKERS]
    assert [part.shape for part in parts] == [(3, 6), (2, 6)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(trial.tensor("Net_fc1.weight", worker="worker_1").value(0), whole[3:])
    assert trial.tensor("Net_gain_weight").workers == ("worker_0",)  # the other rank's part is empty


def test_fsdp2_a_part_is_never_taken_for_the_whole(fsdp_run: Path) -> None:
    series = trackside.open_trial(str(fsdp_run)).tensor("Net_fc1.weight")
    with pytest.raises(ConfigurationError, match="12 of 30 elements"):
        series.value(1)


def test_fsdp1_parts_come_together_by_the_names_of_the_model(
    together: Callable[..., Ended], bare: dict[str, Ended], tmp_path: Path
) -> None:
    """`use_orig_params=True`: a parameter's part is a piece of its elements in a row; of some a rank has nothing."""
    assert together("fsdp1", tmp_path / "run", intervals=(2, 1)).printed == bare["fsdp1"].printed
    trial = trackside.open_trial(str(tmp_path / "run"))
    for step, name, value in by_step(bare["fsdp1"].notes[0]):
        if step != 1:
            np.testing.assert_array_equal(trial.tensor(name).value(step), value, err_msg=name)
    assert trial.value("Net_fc1.weight", step=0, worker="worker_0").ndim == 1
    assert trial.tensor("optimizer/Net_fc1.weight/exp_avg").value(2).shape == (5, 6)
    with pytest.raises(ConfigurationError, match="of 30 elements"):
        trial.tensor("Net_fc1.weight").value(1)


def test_fsdp1_rows_are_saved_as_rows_and_that_is_said(
    together: Callable[..., Ended], bare: dict[str, Ended], tmp_path: Path
) -> None:
    """`use_orig_params=False`: the parameters of a module are one, in a row, with padding at its end."""
    without = bare["fsdp1-rows"]
    assert together("fsdp1-rows", tmp_path / "run", says="use_orig_params=True").printed == without.printed
    trial = trackside.open_trial(str(tmp_path / "run"))
    for step in (0, 1, 2):
        row = trial.tensor("Net_fc1._flat_param").value(step)
        parts = [without.notes[0][f"{step}/Net_fc1.{name}"].reshape(-1) for name in ("weight", "bias")]
        np.testing.assert_array_equal(row[:35], np.concatenate(parts))
    assert trial.tensor("gradient/Net_fc1._flat_param").value(2).shape == row.shape
    assert "Net_fc1._flat_param" in trial.tensor_names(collection="weights")


def test_data_parallel_without_a_gpu(watching: Any) -> None:
    """Without a GPU it calls its module; the replicas of a GPU machine share the module's parameters and gradients."""
    torch.manual_seed(0)
    with watching(losses=1, weights=1, gradients=1) as saved:
        inner = nn.Sequential(nn.Linear(4, 3))
        model = nn.DataParallel(inner)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        functional.mse_loss(model(torch.ones(2, 4)), torch.zeros(2, 3)).backward()
        assert inner[0].weight.grad is not None
        gradient = inner[0].weight.grad.numpy().copy()
        optimizer.step()
    step = saved()[0]
    np.testing.assert_array_equal(step["gradient/Sequential_0.weight"], gradient)
    assert {"MSELoss_output_0", "Sequential_0.weight"} <= step.keys()
