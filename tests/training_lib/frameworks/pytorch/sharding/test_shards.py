"""Parts of a DTensor on each of four ranks, none of which runs: put together they are the tensor, or it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

from trackside.contracts.errors import ConfigurationError
from trackside.frameworks.pytorch.sharding.shards import shard_of
from trackside.trial.tensors.shards import joined

SHAPES = [(8, 3), (7, 3), (5, 4), (3, 2)]
FSDP_OVER_TP = [_StridedShard(0, split_factor=2), Shard(0)]


@contextmanager
def rank(number: int) -> Iterator[Any]:
    dist.init_process_group("fake", store=FakeStore(), rank=number, world_size=4)
    try:
        yield init_device_mesh("cpu", (2, 2))
    finally:
        dist.destroy_process_group()


def parts_of(whole: torch.Tensor, placements: list[Any]) -> list[Any]:
    """(note, values) of each rank that has any."""
    parts = []
    for number in range(4):
        with rank(number) as mesh:
            tensor = distribute_tensor(whole, mesh, placements, src_data_rank=None)
            parts.append((shard_of(tensor), tensor.to_local().numpy().copy()))
    return [part for part in parts if part[1].size]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "placements",
    [
        pytest.param(FSDP_OVER_TP, id="fsdp-over-tensor-parallel"),
        pytest.param([_StridedShard(1, split_factor=2), Shard(1)], id="the-same-of-columns"),
        pytest.param([Shard(0), Shard(1)], id="rows-and-columns"),
        pytest.param([Shard(0), Shard(0)], id="rows-twice"),
        pytest.param([Replicate(), Shard(0)], id="replicas-of-shards"),
    ],
)
def test_parts_make_the_whole(placements: list[Any], shape: tuple[int, int]) -> None:
    whole = torch.arange(shape[0] * shape[1], dtype=torch.float32).reshape(shape)
    np.testing.assert_array_equal(joined("x", parts_of(whole, placements)), whole)


@pytest.mark.parametrize(
    ("placements", "named"),
    [
        pytest.param([Partial(), Shard(0)], "Partial", id="a-sum-still-to-be-made"),
        pytest.param([_StridedShard(0, split_factor=3), Shard(0)], "StridedShard", id="another-split"),
        pytest.param([_StridedShard(0, split_factor=2), Replicate()], "StridedShard", id="nothing-was-split-before"),
    ],
)
def test_what_is_no_box_is_noted_and_never_put_together(placements: list[Any], named: str) -> None:
    parts = parts_of(torch.arange(24.0).reshape(8, 3), placements)
    assert all(shard is not None and named in shard.placement for shard, _ in parts)
    with pytest.raises(ConfigurationError, match="cannot be put together"):
        joined("x", parts)


def test_what_is_whole_on_every_rank_has_no_part() -> None:
    with rank(1) as mesh:
        assert shard_of(DTensor.from_local(torch.ones(2), mesh, [Replicate(), Replicate()])) is None
    assert shard_of(torch.ones(2)) is None
