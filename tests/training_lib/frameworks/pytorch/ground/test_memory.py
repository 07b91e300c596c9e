from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor, Shard, init_device_mesh

from trackside.frameworks.pytorch.ground.memory import NoMemoryError, has_memory, have_memory, readable, with_memory

Make = Callable[[], torch.Tensor]


def freed(tensor: torch.Tensor, *, size_bytes: int = 0) -> torch.Tensor:
    """Free the storage, as FSDP does between two uses. Nothing of PyTorch may read the tensor then."""
    tensor.untyped_storage().resize_(size_bytes)
    return tensor


@pytest.fixture(autouse=True)
def unshown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show no values: pytest shows the arguments of a failed test, and of a freed tensor PyTorch would read them."""
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda self: "a tensor")


def answers(make: Make) -> tuple[bool, int, bool]:
    """Ask each question of the gate."""
    tensor = make()
    try:
        readable(tensor)
    except NoMemoryError as error:
        assert "no values in memory now" in str(error)  # noqa: PT017 - the answer counts as well
        is_readable = False
    else:
        is_readable = True
    return has_memory(tensor), len(with_memory([tensor])), is_readable


def _refilled() -> torch.Tensor:
    tensor = freed(torch.ones(4))
    tensor.untyped_storage().resize_(16)
    return tensor


def _fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(3)


def _view_of_freed() -> torch.Tensor:
    whole = torch.ones(4, 4)
    part = whole[2]
    freed(whole)
    return part


def _freed_rows() -> torch.Tensor:
    sparse = torch.eye(3).to_sparse()
    freed(sparse._values())
    return sparse


def _quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8)


def _compressed() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.eye(3).to_sparse_csr()


class _Wrapper(torch.Tensor):
    """A tensor that consists of another, as those of DTensor and quantisation libraries."""

    inner: torch.Tensor

    @staticmethod
    def of(inner: torch.Tensor) -> _Wrapper:
        made: Any = torch.Tensor._make_wrapper_subclass(_Wrapper, inner.shape)  # type: ignore[attr-defined]
        made.inner = inner
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls.of(function(*(each.inner if isinstance(each, cls) else each for each in args), **(kwargs or {})))

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None


class _Unwilling(torch.Tensor):
    """A tensor that answers no question."""

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("not of this one")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: torch.ones(3), id="dense"),
        pytest.param(lambda: torch.nn.Parameter(torch.ones(3)), id="parameter"),
        pytest.param(lambda: torch.ones(()), id="number"),
        pytest.param(lambda: torch.empty(0, 4), id="no-elements"),
        pytest.param(lambda: torch.ones(4, 4)[1:, ::2], id="strided-view"),
        pytest.param(lambda: torch.ones(1).expand(1000), id="expanded"),
        pytest.param(lambda: torch.ones(3, dtype=torch.bfloat16).t(), id="half"),
        pytest.param(lambda: torch.eye(3).to_sparse(), id="sparse"),
        pytest.param(_compressed, id="sparse-by-rows"),
        pytest.param(lambda: torch.eye(3).to_mkldnn(), id="opaque"),
        pytest.param(_quantized, id="quantized"),
        pytest.param(lambda: _Wrapper.of(torch.ones(3)), id="made-of-another"),
        pytest.param(_refilled, id="filled-again"),
    ],
)
def test_has_memory(make: Make) -> None:
    assert answers(make) == (True, 1, True)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: freed(torch.ones(3)), id="freed"),
        pytest.param(lambda: freed(torch.nn.Parameter(torch.ones(3)).data), id="freed-parameter"),
        pytest.param(_view_of_freed, id="view-of-freed"),
        pytest.param(lambda: freed(torch.ones(8), size_bytes=16), id="shrunk"),
        pytest.param(lambda: freed(torch.ones(4, 4).t()[1:], size_bytes=60), id="shrunk-below-the-last-element"),
        pytest.param(_freed_rows, id="sparse-with-freed-values"),
        pytest.param(lambda: _Wrapper.of(freed(torch.ones(3))), id="made-of-a-freed-one"),
        pytest.param(lambda: _Wrapper.of(torch.ones(3, device="meta")), id="made-of-a-meta-one"),
        pytest.param(lambda: torch.ones(3, device="meta"), id="meta"),
        pytest.param(_fake, id="fake"),
        pytest.param(lambda: torch.nn.LazyLinear(3).weight, id="no-shape-yet"),
        pytest.param(lambda: torch.ones(3).as_subclass(_Unwilling), id="does-not-answer"),
    ],
)
def test_has_no_memory(make: Make) -> None:
    assert answers(make) == (False, 0, False)


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.grad, torch.func.functionalize])
def test_wrapped_by_a_transformation_has_none(transform: Callable[..., Any]) -> None:
    seen = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        seen.append((has_memory(tensor), have_memory([tensor])))
        return tensor.sum()

    transform(look)(torch.ones(3))
    assert seen[0][0] is False


def test_a_sharded_one_is_its_local_part(tmp_path: Any) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        whole = DTensor.from_local(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])
        before = has_memory(whole)
        freed(whole._local_tensor)
        found = before, has_memory(whole)
        assert found == (True, False)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        pytest.param(list, True, id="none"),
        pytest.param(lambda: [torch.ones(2), torch.ones(3)], True, id="all"),
        pytest.param(lambda: [torch.ones(2), torch.empty(0)], True, id="one-without-elements"),
        pytest.param(lambda: [torch.ones(2), torch.eye(2).to_sparse()], True, id="one-sparse"),
        pytest.param(lambda: [torch.ones(2), freed(torch.ones(2))], False, id="one-freed"),
        pytest.param(lambda: [_view_of_freed()], False, id="view-of-freed"),
    ],
)
def test_several_at_once(tensors: Callable[[], list[torch.Tensor]], expected: bool) -> None:
    found = have_memory(tensors())
    assert found is expected
