"""smdebug.pytorch.Hook in whole trainings: several ranks, compiled models, interruptions, TensorBoard, every key."""

from __future__ import annotations

import copy
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import smdebug.pytorch as smd
import torch
from smdebug.core.hook_configuration import read_configuration
from smdebug.core.tfrecord.record_reader import RecordReader
from torch import nn

from tests.smdebug.test_hook import EVERY_KEY
from tests.warm_python import WarmPython
from trackside.contracts.run_layout import END_MARKER_KEY
from trackside.environment import inherited

TRAIN, EVAL = smd.modes.TRAIN, smd.modes.EVAL
STEPS = 4


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Iterator[None]:
    yield
    if (hook := smd.get_hook()) is not None:
        hook.close()
    smd.del_hook()


def given(**variables: str) -> dict[str, str]:
    environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    return environment | variables


# Several ranks.

RANKS = f"""
import os, sys

import torch
import torch.distributed as dist
import smdebug.pytorch as smd
from torch import nn

meeting = "file://" + os.path.abspath(sys.argv[1])
dist.init_process_group("gloo", init_method=meeting, rank=int(os.environ["RANK"]), world_size=2)
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
hook = smd.Hook.create_from_json_file()
hook.register_module(model)
hook.register_loss(criterion)
hook.set_mode(smd.modes.TRAIN)
torch.manual_seed(dist.get_rank())
for step in range({STEPS}):
    optimizer.zero_grad()
    loss = criterion(model(torch.randn(6, 4)), torch.zeros(6, 1))
    loss.backward()
    optimizer.step()
    told = f"LOSS {{dist.get_rank()}} {{loss.item()}} {{hook.worker}} {{hook.last_saved_step}}\\n"
    os.write(1, told.encode())  # in one piece: the ranks share the pipe
dist.barrier()
dist.destroy_process_group()
"""


def train_in_ranks(folder: Path, workers: str, python: WarmPython) -> dict[int, list[float]]:
    """The losses of each rank, as the script has printed them."""
    script, configuration = folder / "train.py", folder / "hook.json"
    script.write_text(RANKS, "utf-8")
    document = {
        "LocalPath": str(folder / "run"),
        "HookParameters": {"save_interval": 1, "include_workers": workers},
        "CollectionConfigurations": [{"CollectionName": name} for name in ("gradients", "losses")],
    }
    configuration.write_text(json.dumps(document), "utf-8")
    for attempt in range(3):
        ranks = [
            python.start_captured(
                script, f"meet-{attempt}", cwd=folder,
                env=given(SMDEBUG_CONFIG_FILE_PATH=str(configuration), WORLD_SIZE="2", RANK=str(rank)),
            )
            for rank in (0, 1)
        ]  # fmt: skip
        ended = [rank.finish() for rank in ranks]
        if not any("terminate called without" in done.stderr for done in ended):
            break
        shutil.rmtree(folder / "run", ignore_errors=True)  # gloo's own threads end a rank now and then, without us too
    assert [done.returncode for done in ended] == [0, 0], [done.stderr[-3000:] for done in ended]
    assert not any("Trackside" in done.stderr for done in ended)
    said = [line.split()[1:] for done in ended for line in done.stdout.splitlines() if line.startswith("LOSS")]
    assert {(rank, worker) for rank, _, worker, _ in said} == {("0", "worker_0"), ("1", "worker_1")}
    return {rank: [float(loss) for number, loss, *_ in said if int(number) == rank] for rank in (0, 1)}


def test_all_ranks_of_ddp_are_saved(tmp_path: Path, warm_python: WarmPython) -> None:
    losses = train_in_ranks(tmp_path, "all", warm_python)
    trial = smd.create_trial(str(tmp_path / "run"))
    assert sorted(trial.workers()) == ["worker_0", "worker_1"]
    assert trial.steps(mode=TRAIN) == list(range(STEPS))
    loss = trial.tensor("MSELoss_output_0")
    gradient = trial.tensor("gradient/Sequential_0.weight")
    for step in range(STEPS):
        found = [float(loss.value(step, worker=f"worker_{rank}")) for rank in (0, 1)]
        assert found == pytest.approx([losses[rank][step] for rank in (0, 1)], abs=1e-6)
        reduced = [gradient.value(step, worker=f"worker_{rank}").tolist() for rank in (0, 1)]
        assert reduced[0] != reduced[1], "of each rank alone, before the reduction, as smdebug saves them"
    assert losses[0] != losses[1]


def test_of_ddp_one_rank_is_saved_and_no_reader_waits_for_the_other(tmp_path: Path, warm_python: WarmPython) -> None:
    losses = train_in_ranks(tmp_path, "one", warm_python)
    folder = tmp_path / "run"
    files = [path for part in ("events", "index", "collections") for path in (folder / part).rglob("*.*")]
    assert len(files) > STEPS
    assert [path for path in files if "worker_1" in path.name] == []
    (folder / END_MARKER_KEY).unlink()  # else a reader takes every step for complete
    trial = smd.create_trial(str(folder))
    assert (trial.workers(), trial.num_workers) == (["worker_0"], 1)
    assert trial.steps(mode=TRAIN) == list(range(STEPS))
    values = [float(trial.tensor("MSELoss_output_0").value(step)) for step in range(STEPS)]
    assert values == pytest.approx(losses[0], abs=1e-6)


# A compiled model.


def trained(folder: Path, *, is_compiled: bool) -> dict[str, list[list[Any]]]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    save_config = smd.SaveConfig(save_interval=2)
    hook = smd.Hook(str(folder), save_config=save_config, include_collections=["weights", "biases", "gradients", "out"])
    hook.get_collection("out").include("_output_0$")
    model: Any = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    hook.register_module(model)
    if is_compiled:
        model = torch.compile(model, backend="aot_eager")
    criterion = nn.MSELoss()
    hook.register_loss(criterion)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        criterion(model(torch.randn(6, 4)), torch.zeros(6, 1)).backward()
        optimizer.step()
    hook.close()
    smd.del_hook()
    trial = smd.create_trial(str(folder))
    assert trial.steps() == [0, 2]
    return {
        name: [trial.tensor(name).value(step).tolist() for step in trial.tensor(name).steps()]
        for name in trial.tensor_names()
    }


def test_a_compiled_model_gives_what_an_eager_one_does(tmp_path: Path) -> None:
    compiled = trained(tmp_path / "compiled", is_compiled=True)
    eager = trained(tmp_path / "eager", is_compiled=False)
    assert compiled == eager
    assert {"MSELoss_output_0", "Sequential_0.weight", "gradient/Sequential_2.bias", "1_output_0"} <= set(compiled)


# An interruption.

INTERRUPTED = """
import os, signal, sys, time
import torch
import smdebug.pytorch as smd
from torch import nn

run, checkpoint, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hook = smd.Hook(run, save_config=smd.SaveConfig(save_interval=2))
hook.register_module(model)
start = 0
if os.path.exists(checkpoint):
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    start = state["step"] + 1
for step in range(start, last):
    model(torch.ones(1, 2)).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    assert hook.step == step, (hook.step, step)
    if step % 5 == 4:
        torch.save({"model": model.state_dict(), "step": step}, checkpoint)
        time.sleep(0.5)  # as a training does after it has saved
if last == 12:
    os.kill(os.getpid(), signal.SIGKILL)
print(hook.training_run, start)
"""


def test_after_a_spot_interruption_the_steps_go_on_from_the_checkpoint(tmp_path: Path, warm_python: WarmPython) -> None:
    """The new instance has the folder of checkpoints alone; its run lies beside that of the first in the bucket."""
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    (tmp_path / "checkpointconfig.json").write_text(json.dumps({"LocalPath": str(checkpoints)}), "utf-8")
    (tmp_path / "train.py").write_text(INTERRUPTED, "utf-8")
    script, checkpoint = tmp_path / "train.py", str(checkpoints / "model.pt")
    environment = given(CHECKPOINT_CONFIG_FILE_PATH=str(tmp_path / "checkpointconfig.json"))
    first = warm_python.run(script, "first", checkpoint, "12", cwd=tmp_path, env=environment)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = warm_python.run(script, "second", checkpoint, "20", cwd=tmp_path, env=environment)
    assert (second.returncode, second.stdout, second.stderr) == (0, "1 10\n", "")
    trial = smd.create_trial(str(tmp_path / "second"))
    assert trial.steps() == trial.steps(mode=TRAIN) == [10, 12, 14, 16, 18]
    states = json.loads((checkpoints / "metadata.json").read_text("utf-8"))
    assert [(state["training-run"], state["latest-global-step-seen"]) for state in states] == [(0, 4), (0, 9), (1, 14)]


# TensorBoard.


def test_what_tensorboard_gets(tmp_path: Path) -> None:
    torch.manual_seed(0)
    hook = smd.Hook(
        str(tmp_path / "run"),
        export_tensorboard=True,
        tensorboard_dir=str(tmp_path / "board"),
        include_collections=["weights"],
        save_config=smd.SaveConfig(save_interval=2),
    )
    model, criterion = nn.Linear(2, 1), nn.MSELoss()
    hook.register_module(model)
    hook.register_loss(criterion)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for mode in (TRAIN, EVAL):
        hook.set_mode(mode)
        for _ in range(3):
            loss = criterion(model(torch.ones(4, 2)), torch.zeros(4, 1))
            if mode is TRAIN:
                loss.backward()
                optimizer.step()
                hook.save_scalar("rate", 0.1)
    hook.close()
    found = {mode: records(tmp_path / "board" / mode) for mode in ("TRAIN", "EVAL")}
    for text in (b"MSELoss_output_0", b"scalar/rate", b"weights/Linear_weight"):
        assert sum(text in record for record in found["TRAIN"]) >= 2, text
    assert sum(b"MSELoss_output_0" in record for record in found["EVAL"]) == 2
    assert not any(b"scalar/rate" in record for record in found["EVAL"])


def records(folder: Path) -> list[bytes]:
    found = []
    for path in sorted(folder.iterdir()):
        reader = RecordReader(str(path))
        while reader.has_data():
            found.append(reader.read_record(check="full"))
    return found


# The configuration file.

# Every key of the file that the original reads, and `dry_run`, which it documents; `S3OutputPath` is for SageMaker.
SCHEDULE = [f"{mode}{key}" for mode in ("", "train.", "eval.", "predict.", "global.")
            for key in ("save_interval", "start_step", "end_step", "save_steps")]  # fmt: skip
OF_REDUCTIONS = ["reductions", "save_raw_tensor", "save_shape"]
HOOK_KEYS = [
    *SCHEDULE, *OF_REDUCTIONS, "include_regex", "save_all", "include_workers", "export_tensorboard", "tensorboard_dir",
    "dry_run",
]  # fmt: skip
COLLECTION_KEYS = [*SCHEDULE, *OF_REDUCTIONS, "include_regex", "save_histogram"]
VALUES: dict[str, Any] = {
    "save_interval": 3, "start_step": 1, "end_step": 70, "save_steps": "5,9",
    "reductions": "min", "save_raw_tensor": True, "save_shape": True, "include_regex": "relu,tanh", "save_all": True,
    "include_workers": "all", "export_tensorboard": True, "tensorboard_dir": "/board", "dry_run": True,
    "save_histogram": False,
}  # fmt: skip


def told(parameters: dict[str, Any], *, of_collection: bool) -> str:
    document: dict[str, Any] = {"HookParameters": {} if of_collection else parameters}
    if of_collection:
        document["CollectionConfigurations"] = [{"CollectionName": "own", "CollectionParameters": parameters}]
    found = read_configuration(document)
    collections = [collection.to_json() for collection in found.collections]
    return repr((found.save_config.to_json(), found.reduction_config, vars_without(found), collections))


def vars_without(found: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(found).items() if name not in ("save_config", "collections")}


@pytest.mark.parametrize(
    ("key", "of_collection"),
    [
        *[pytest.param(key, False, id=f"hook:{key}") for key in HOOK_KEYS],
        *[pytest.param(key, True, id=f"collection:{key}") for key in COLLECTION_KEYS],
    ],
)
def test_each_key_counts_by_itself(key: str, of_collection: bool) -> None:
    value = VALUES[key.rpartition(".")[2]]
    assert told({key: value}, of_collection=of_collection) != told({}, of_collection=of_collection)


@pytest.mark.parametrize("key", ["unknown", "train.include_regex", "test.save_interval"])
def test_keys_that_there_are_not_are_passed_over(key: str) -> None:
    for of_collection in (False, True):
        assert told({key: 3}, of_collection=of_collection) == told({}, of_collection=of_collection)


def test_a_training_with_every_key(tmp_path: Path) -> None:
    """The hook is what the file says, and the run what the hook is."""
    document = copy.deepcopy(EVERY_KEY) | {"LocalPath": str(tmp_path / "run")}
    document["HookParameters"] |= {"tensorboard_dir": str(tmp_path / "board")}
    path = tmp_path / "hook.json"
    path.write_text(json.dumps(document), "utf-8")
    hook = smd.Hook.create_from_json_file(str(path))
    assert (hook.out_dir, hook.tensorboard_dir) == (str(tmp_path / "run"), str(tmp_path / "board"))
    assert (hook.save_all, hook.save_all_workers, hook.dry_run) == (True, True, False)
    assert hook.include_regex == ["relu", "tanh"]
    assert {"all", "default", "losses", "own", "biases"} == {*hook.include_collections}
    assert hook.save_config.get_save_config(TRAIN) == smd.SaveConfigMode(10, 1, 900, [3, 7])
    model, criterion = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook.register_module(model)
    hook.register_loss(criterion)
    for _ in range(5):
        optimizer.zero_grad()
        criterion(model(torch.ones(4, 2)), torch.zeros(4, 1)).backward()
        optimizer.step()
    hook.close()
    trial = smd.create_trial(str(tmp_path / "run"))
    assert trial.tensor("MSELoss_output_0").steps() == [2, 3, 4], "every second from step 1 on, and step 3"
    weight = trial.tensor("Sequential_0.weight")
    assert weight.steps() == [3]
    assert set(weight.reduction_values(3)) == {("mean", False), ("l2", True)}
    assert weight.value(3).shape == (2, 2)
    assert records(tmp_path / "board" / "TRAIN")
