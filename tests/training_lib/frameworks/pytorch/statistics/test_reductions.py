"""Reductions that are computed beside the training are those of a copy, and saved as those of a copy are."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.work import bytecodes
from trackside.capture.statistics.one_pass import LOOPS, Loops
from trackside.capture.steps.reduced_tensors import FROM_MOMENTS, ReducedLayout
from trackside.capture.steps.reduction import reduced
from trackside.capture.steps.step_engine import StepEngine
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.pytorch.statistics.moments import MomentReader
from trackside.frameworks.pytorch.statistics.reductions import ReductionSource
from trackside.records.tfevents import TensorRecord, read_records

TOKENS = tuple(FROM_MOMENTS)


def by_moments(tensors: list[torch.Tensor]) -> dict[str, float]:
    layout = ReducedLayout([(f"t{place}", TOKENS) for place in range(len(tensors))])
    values = layout.values(MomentReader().read(tensors))
    return dict(zip(layout.record_names, values.tolist(), strict=True))


def by_copies(tensors: list[torch.Tensor]) -> dict[str, float]:
    found = [pair for place, t in enumerate(tensors) for pair in reduced(f"t{place}", t.numpy(), TOKENS)]
    return {name: float(value) for name, value in found}


def assert_alike(tensors: list[torch.Tensor]) -> None:
    mine, others = by_moments(tensors), by_copies(tensors)
    assert mine.keys() == others.keys()
    for name, expected in others.items():
        _, _, token, tensor = name.split("/")
        sizes = tensors[int(tensor[1:])].double().abs()
        # A sum of numbers of both signs is as exact as the sum of their absolutes; a spread, as the squares.
        scale = {"mean": sizes.mean(), "sum": sizes.sum()}.get(token, 0.0)
        np.testing.assert_allclose(mine[name], expected, rtol=1e-5, atol=1e-6 * float(scale), err_msg=name)


normal = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param([torch.tensor(2.5)], id="a-number"),
        pytest.param([torch.randn(3, 5, generator=normal), torch.randn(256, generator=normal)], id="small"),
        pytest.param([torch.randn(256, 257, generator=normal), torch.randn(7, generator=normal)], id="large-and-small"),
        pytest.param([torch.randn(65536, generator=normal) for _ in range(5)], id="several-buffers"),
        pytest.param([torch.randn(200_001, generator=normal)], id="several-blocks"),
        pytest.param([torch.ones(384), torch.zeros(10), torch.full((70_000,), 1.1)], id="all-alike"),
        pytest.param([torch.randn(5000, generator=normal) + 1e4], id="far-from-zero"),
        pytest.param([torch.randn(90_000, generator=normal) + 1e4], id="large-and-far-from-zero"),
        pytest.param([torch.full((65536,), 0.7) * torch.tensor([1.0, -1.0]).repeat(32768)], id="of-one-size"),
        pytest.param([-torch.rand(300, generator=normal) - 1], id="below-zero"),
    ],
)
def test_moments_give_what_copies_give(tensors: list[torch.Tensor]) -> None:
    assert_alike(tensors)


@settings(max_examples=40, deadline=None)
@given(st.lists(hnp.arrays("f4", st.integers(1, 700), elements=st.floats(-1e3, 1e3, width=32)), min_size=1, max_size=5))
def test_moments_give_what_copies_give_of_any_values(arrays: list[np.ndarray[Any, Any]]) -> None:
    tensors = [torch.from_numpy(array) for array in arrays]
    exact = MomentReader().read(tensors).is_exact
    assert_alike([t for t, is_exact in zip(tensors, exact, strict=True) if is_exact] or [torch.ones(1)])


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf"), 1e20, 1e-20])
def test_what_single_precision_cannot_square_is_told(odd: float) -> None:
    moments = MomentReader().read([torch.ones(4), torch.full((3,), odd), torch.zeros(2)])
    assert moments.is_exact.tolist() == [True, False, True]


def test_a_buffer_that_was_full_leaves_nothing_behind() -> None:
    reader = MomentReader()
    reader.read([torch.full((131,), 9.0), torch.full((4000,), float("inf"))])
    moments = reader.read([torch.ones(10), torch.ones(300)])
    assert moments.total.tolist() == moments.abs_total.tolist() == [10.0, 300.0]
    assert moments.largest.tolist() == moments.smallest.tolist() == [1.0, 1.0]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 300), torch.nn.Linear(300, 3)
        self.odd = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(torch.relu(self.first(x))) * self.odd.float().sum()
        return out


def train(folder: Path, request: CaptureRequest, *, spoil: Callable[[Net], None] = lambda net: None) -> dict[str, Any]:
    """The tensors of the last of three steps, as they were right before it."""
    capture = PyTorchAdapter(CaptureEnvironment(str(folder), request.to_json(), 0, 1))
    capture.install()
    try:
        torch.manual_seed(0)
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(8, 4)).square().mean().backward()
            spoil(net)
            seen = {}
            for name, parameter in net.named_parameters():
                seen[f"Net_{name}"] = parameter.detach().clone()
                if parameter.grad is not None:
                    seen[f"gradient/Net_{name}"] = parameter.grad.clone()
            optimizer.step()
    finally:
        capture.uninstall()
    return seen


def saved(folder: Path, step: int) -> dict[str, TensorRecord]:
    event = folder / f"debug-output/events/{step:012}/{step:012}_worker_0.tfevents"
    return {record.name: record for record in read_records(event.read_bytes(), key=event.name)}


def wanted(*reductions: str, weights: tuple[str, ...] = ()) -> CaptureRequest:
    asked = {"weights": weights or reductions, "biases": reductions, "gradients": reductions}
    collections = tuple(CollectionRequest(name, reductions=tokens) for name, tokens in asked.items())
    every_step = tuple(CollectionRequest(c.name, Schedule(1), reductions=c.reductions) for c in collections)
    return CaptureRequest(every_step, statistics=StatisticsRequest(enabled=False))


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(wanted("mean", "std", "abs_max"), id="alike"),
        pytest.param(wanted("l2_norm", weights=("min", "max", "l1_norm")), id="weights-otherwise"),
        pytest.param(wanted("prod", "mean"), id="what-needs-copies"),
    ],
)
def test_a_training_saves_the_reductions_of_what_its_step_uses(tmp_path: Path, request_: CaptureRequest) -> None:
    seen = train(tmp_path, request_)
    records = saved(tmp_path, 2)
    expected = {
        name: value
        for tensor, value_of in seen.items()
        for name, value in reduced(tensor, value_of.numpy(), _request(request_, tensor))
    }
    assert records.keys() == expected.keys()
    for name, value in expected.items():
        record = records[name]
        assert (record.step, record.mode, record.mode_step, record.value.dtype) == (2, "TRAIN", 2, value.dtype), name
        np.testing.assert_allclose(record.value, value, rtol=1e-5, atol=1e-7, err_msg=name)


def _request(request: CaptureRequest, tensor: str) -> tuple[str, ...]:
    kind = "gradients" if tensor.startswith("gradient/") else ("biases" if "bias" in tensor else "weights")
    return next(c.reductions for c in request.collections if c.name == kind)


def test_a_gradient_that_broke_is_reduced_as_any_copy(tmp_path: Path) -> None:
    def spoil(net: Net) -> None:
        assert net.first.weight.grad is not None
        net.first.weight.grad[0, 0] = float("inf")

    train(tmp_path, wanted("mean", "abs_max"), spoil=spoil)
    records = saved(tmp_path, 0)
    assert np.isinf(records["smdebug/reductions/abs_max/gradient/Net_first.weight"].value)
    assert np.isfinite(records["smdebug/reductions/abs_max/gradient/Net_second.weight"].value)


def test_a_parameter_without_a_gradient_has_no_reductions_of_one(tmp_path: Path) -> None:
    def spoil(net: Net) -> None:
        net.second.bias.grad = None

    train(tmp_path, wanted("mean"), spoil=spoil)
    records = saved(tmp_path, 1)
    assert "smdebug/reductions/mean/Net_second.bias" in records
    assert "smdebug/reductions/mean/gradient/Net_second.bias" not in records
    assert "smdebug/reductions/mean/gradient/Net_first.bias" in records


def taken(parameters: list[torch.Tensor], *, loops: Loops | None, times: int = 2) -> dict[str, float]:
    """The reductions of parameters and their gradients that are computed in place, by record, at the last of steps."""
    engine = StepEngine(wanted(*TOKENS))
    source = ReductionSource(engine, loops=loops)
    source.start()
    names = tuple(f"Net_{place}.weight" for place in range(len(parameters)))
    for _ in range(times):  # the plan is made at the first, and used at the next
        engine.open_step.clear()
        source.add(names, parameters)
    row = engine.open_step.take(0, 0, wall_time=0.0, keep_unsettled=False, renamed=str)
    rows = row.reduced if row is not None else ()
    return {
        name: number for one in rows for name, number in zip(one.layout.record_names, one.numbers.tolist(), strict=True)
    }


floats = st.floats(-1e3, 1e3, width=32) | st.sampled_from(
    [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 1e-13, 1e-30, 1e16, 3e38]
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["f4", "f8", "f2", "i4", "?"]).flatmap(
            lambda kind: hnp.arrays(
                kind, hnp.array_shapes(max_dims=3, min_side=0, max_side=40), elements=floats if kind == "f4" else None
            )
        ),
        min_size=1,
        max_size=6,
    )
)
@pytest.mark.skipif(LOOPS is None, reason="trackside-native is not installed: no C compiler was found")
def test_one_call_of_compiled_code_gives_what_python_gives(arrays: list[np.ndarray[Any, Any]]) -> None:
    tensors = [torch.from_numpy(array) for array in arrays]
    compiled, python = taken(tensors, loops=LOOPS), taken(tensors, loops=None)
    assert list(compiled) == list(python)  # in the same order, so in the same bytes
    sizes = [tensor.double().abs() for tensor in tensors]
    for name, expected in python.items():
        mine = sizes[int(name.split("_")[-1].split(".")[0])]
        scale = {"mean": mine.mean(), "sum": mine.sum()}.get(name.split("/")[2], 0.0)
        np.testing.assert_allclose(compiled[name], expected, rtol=2e-5, atol=1e-6 * float(scale), err_msg=name)


def freed() -> torch.Tensor:
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize("loops", [pytest.param(LOOPS, id="compiled"), pytest.param(None, id="python")])
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(lambda: torch.ones(4, 3).t(), id="not-contiguous"),
        pytest.param(lambda: torch.ones(0), id="empty"),
        pytest.param(lambda: torch.ones(3).to_sparse(), id="sparse"),
        pytest.param(lambda: torch.ones(3, device="meta"), id="meta"),
        pytest.param(freed, id="freed"),
        pytest.param(lambda: torch.ones(3, dtype=torch.bfloat16), id="half"),
        pytest.param(torch.nn.UninitializedParameter, id="lazy"),
    ],
)
def test_what_cannot_be_read_in_place_is_left_to_others(odd: Callable[[], torch.Tensor], loops: Loops | None) -> None:
    found = taken([torch.full((3,), 2.0), odd()], loops=loops)
    assert {name.rpartition("/")[2] for name in found} == {"Net_0.weight"}
    assert found["smdebug/reductions/mean/Net_0.weight"] == 2.0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda tensor: tensor.untyped_storage().resize_(0), id="freed"),
        pytest.param(lambda tensor: tensor.resize_(0), id="emptied"),
        pytest.param(lambda tensor: setattr(tensor, "data", torch.ones(8, 2).t()), id="turned"),
        pytest.param(lambda tensor: setattr(tensor, "data", tensor.data.double()), id="widened"),
    ],
)
def test_a_tensor_that_changes_between_two_steps_is_looked_at_again(change: Callable[[torch.Tensor], Any]) -> None:
    engine = StepEngine(wanted("mean"))
    source = ReductionSource(engine)
    source.start()
    names, tensors = ("Net_a.weight", "Net_b.weight"), [torch.ones(4), torch.ones(4)]
    assert source.add(names, tensors) == {*names}
    engine.open_step.clear()
    change(tensors[1])
    assert source.add(names, tensors) == {"Net_a.weight"}


def test_from_step_to_step_no_tensor_is_looked_at_by_itself() -> None:
    """The work of a step is the same for 4 and for 40 tensors."""

    def work(count: int) -> int:
        engine = StepEngine(wanted("mean"))
        source = ReductionSource(engine)
        source.start()
        names, tensors = tuple(f"Net_{place}.weight" for place in range(count)), [torch.ones(4) for _ in range(count)]
        source.add(names, tensors)
        engine.open_step.clear()
        return bytecodes(lambda: source.add(names, tensors))

    assert work(40) == work(4)
