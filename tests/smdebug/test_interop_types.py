"""Every type of NumPy, and those that others add to it: the real smdebug reads what we store, with no value lost."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS, collections_key
from trackside.environment import inherited
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore
from trackside.trial.trial import open_trial

# numpy type -> what is stored. The first row of the table in docs/formats/tensors.md is what smdebug reads as it is.
STORED = {
    "float16": "float16",
    "float32": "float32",
    "float64": "float64",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "bool": "bool",
    "complex128": "complex128",
    "int8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
    "complex64": "complex128",
    "longdouble": "float64",
    "clongdouble": "complex128",
}


def extremes(name: str) -> Any:
    """The smallest, the largest and ordinary values of a type; what float64 cannot hold of long double is left out."""
    dtype = np.dtype(name)
    if dtype.kind in "iu":
        largest = min(np.iinfo(dtype).max, np.iinfo(np.int64).max)
        return np.array([np.iinfo(dtype).min, 0, 1, largest], dtype)
    if dtype.kind == "f":
        bounds = np.finfo(dtype if dtype.itemsize <= 8 else np.dtype("f8"))
        special = [np.nan, np.inf, -np.inf, -0.0]
        return np.array([bounds.min, bounds.max, bounds.tiny, bounds.smallest_subnormal, *special], dtype)
    return np.array([0, 1], dtype) if dtype.kind == "b" else np.array([1 + 2j, complex(np.nan, np.inf)], dtype)


def save(folder: Path, tensors: dict[str, Any]) -> None:
    store = LocalStore(folder)
    pairs = list(tensors.items())
    write_step(store, encode_step(pairs, step=0, mode="TRAIN", mode_step=0, worker="worker_0", wall_time=1.0))
    store.put(collections_key("worker_0"), encode_collections([CollectionRecord("all")], num_workers=1))
    store.put(END_MARKER_KEY, b"")


def read_by_smdebug(peer: Any, folder: Path) -> dict[str, Any]:
    found = {}
    for name, *_, value in peer("read", {"folder": str(folder)})["tensors"]:
        if value["dtype"] == "str":
            found[name] = np.array(value["texts"]).reshape(value["shape"])
        else:
            data = base64.b64decode(value["data"])
            found[name] = np.frombuffer(data, value["dtype"]).reshape(value["shape"])
    return found


def test_every_type_is_read_by_the_real_smdebug(tmp_path: Path, peer: Any) -> None:
    values = {name: extremes(name) for name in STORED}
    save(tmp_path, values)
    found = read_by_smdebug(peer, tmp_path)
    ours = open_trial(str(tmp_path))
    assert found.keys() == values.keys()
    for name, value in values.items():
        expected = value.astype(STORED[name])
        for read in (found[name], ours.value(name, step=0, worker="worker_0")):
            assert read.dtype == expected.dtype, name
            np.testing.assert_array_equal(read, expected, err_msg=name)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda a: a.T, id="transposed"),
        pytest.param(lambda a: a[::2, ::-1], id="strided and reversed"),
        pytest.param(np.asfortranarray, id="Fortran order"),
        pytest.param(lambda a: a.astype(a.dtype.newbyteorder(">")), id="big-endian"),
        pytest.param(lambda a: np.broadcast_to(a[0], (5, 3)), id="broadcast"),
        pytest.param(lambda a: a[1, 2], id="a NumPy scalar's array"),
        pytest.param(lambda a: a.reshape(1, 4, 1, 3, 1), id="sides of one"),
        pytest.param(lambda a: a.view(np.ndarray)[:, 1:2], id="a view"),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "i8", "c16", "i2"])
def test_every_layout_in_memory_is_stored_alike(dtype: str, make: Any, tmp_path: Path) -> None:
    value = np.asarray(make(np.arange(12).reshape(4, 3).astype(dtype)))
    plain = np.array(value.tolist(), dtype).reshape(value.shape)
    at: dict[str, Any] = {"step": 0, "mode": "TRAIN", "mode_step": 0, "worker": "worker_0", "wall_time": 1.0}
    assert encode_step([("x", value)], **at) == encode_step([("x", plain)], **at)


def test_old_readers_are_spared_what_has_no_elements(tmp_path: Path, peer: Any) -> None:
    """An empty tensor, written as it is, is an error to them on every look at it."""
    save(tmp_path, {"empty": np.zeros((0, 3), "f4"), "full": np.ones(2, "f4"), "scalar": np.array(2.5, "f4")})
    found = read_by_smdebug(peer, tmp_path)
    assert {name: value.tolist() for name, value in found.items()} == {"full": [1, 1], "scalar": 2.5}


def small_floats() -> list[str]:
    return ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


def test_small_types_of_ml_dtypes_are_stored_as_float32(tmp_path: Path, peer: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="in the tools group; JAX, TensorFlow and others bring it")
    codes = {name: np.arange(256 if "8" in name[5:7] else 65536) for name in small_floats()}
    values = {
        name: all_codes.astype("u2" if name == "bfloat16" else "u1").view(getattr(ml_dtypes, name))
        for name, all_codes in codes.items()
    }
    values |= {name: np.array([0, 1], getattr(ml_dtypes, name)) for name in ("int4", "uint4")}
    save(tmp_path, values)
    found = read_by_smdebug(peer, tmp_path)
    for name, value in values.items():
        assert found[name].dtype == ("int32" if "int" in name else "float32")
        np.testing.assert_array_equal(found[name], value.astype("f4"), err_msg=name)
        with np.errstate(invalid="ignore"):
            again = found[name].astype(value.dtype)
        is_number = ~np.isnan(found[name])
        assert again[is_number].tobytes() == value[is_number].tobytes(), name  # nothing is lost


BFLOAT16_SCRIPT = """
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(4, 4, dtype=torch.bfloat16)), torch.tensor([0, 1, 0, 1]))
    loss.backward()
    print(step, model[0].weight.grad.float().flatten().tolist())
    optimizer.step()
"""


def test_the_gradients_of_a_bfloat16_model_are_read_by_the_real_smdebug(tmp_path: Path, peer: Any) -> None:
    """The whole way: an unchanged script, our capture, their reader."""
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BFLOAT16_SCRIPT],
        env={**inherited(), "TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": _every_step()},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=True,
    )
    found = peer("read", {"folder": str(run / TENSORS)})["tensors"]
    gradients = {step: value for name, step, *_, value in found if name == "gradient/Sequential_0.weight"}
    assert sorted(gradients) == [0, 1, 2], done.stderr
    for line in done.stdout.splitlines():
        step, _, numbers = line.partition(" ")
        value = gradients[int(step)]
        read = np.frombuffer(base64.b64decode(value["data"]), value["dtype"])
        assert value["dtype"] == "float32"
        assert read.tolist() == [float(number) for number in numbers.strip("[]").split(",")]


def _every_step() -> str:
    from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule

    return CaptureRequest(tuple(CollectionRequest(name, Schedule(1)) for name in ("gradients", "weights"))).to_json()
