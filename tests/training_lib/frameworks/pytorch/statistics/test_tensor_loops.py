"""Tensors by the compiled loops: the same numbers as by PyTorch, and none of a tensor that they cannot read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trackside.capture.statistics.one_pass import LOOPS
from trackside.frameworks.pytorch.statistics.moments import MomentReader
from trackside.frameworks.pytorch.statistics.tensor_loops import TensorLoops

needs_loops = pytest.mark.skipif(LOOPS is None, reason="trackside-native is not installed: no C compiler was found")
SHAPES = [(1,), (3, 5), (256, 256), (70_000,), (10,), (300, 300)]


def tensors(scale: float = 1.0, *, mean: float = 0.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) * scale + mean for shape in SHAPES]


@needs_loops
@pytest.mark.parametrize("mean", [0.0, 1.0, 100.0], ids=["centred", "off-centre", "nearly-alike"])
@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
def test_moments_are_the_same_with_the_loops_and_without(scale: float, mean: float) -> None:
    given = tensors(scale, mean=mean * scale)
    with_loops, without = (MomentReader(loops).read(given) for loops in (LOOPS, None))
    sizes = without.abs_total
    for name in ("count", "smallest", "largest", "is_exact"):
        np.testing.assert_array_equal(getattr(with_loops, name), getattr(without, name))
    np.testing.assert_allclose(with_loops.abs_total, without.abs_total, rtol=2e-6)
    np.testing.assert_allclose(with_loops.total, without.total, rtol=0, atol=2e-6 * sizes.max())
    np.testing.assert_allclose(with_loops.spread[1:], without.spread[1:], rtol=2e-4)


@needs_loops
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e25])
def test_norms_copies_changes_and_sizes_are_those_of_double_precision(scale: float) -> None:
    loops, given = TensorLoops(), tensors(scale)
    given[1][0, :2] = 0
    copies, later = [torch.empty_like(t) for t in given], [t * 1.5 for t in given]
    wide = [t.double() for t in given]
    expected = np.array([t.norm().item() for t in wide])
    norms, copied, changed = loops.norms(given), loops.copied(given, copies), loops.changed(later, copies)
    sizes = loops.sizes(given)
    assert norms is not None
    assert copied is not None
    assert changed is not None
    assert sizes is not None
    for found, factor in ((norms, 1.0), (copied, 1.0), (changed, 0.5)):
        np.testing.assert_allclose(found, factor * expected, rtol=1e-5)
    np.testing.assert_allclose(sizes[0], [t.abs().sum().item() for t in wide], rtol=1e-5)
    np.testing.assert_array_equal(sizes[1], [(t == 0).sum().item() for t in wide])
    np.testing.assert_array_equal(sizes[2], [t.abs().max().item() for t in wide])


class Subclass(torch.Tensor):
    """A class of its own: what its numbers are is for it to say."""


class Mode(TorchDispatchMode):
    """A mode that sees each operation."""

    def __torch_dispatch__(self, func: object, types: object, args: object = (), kwargs: object = None) -> object:
        raise AssertionError("no operation is to be made")


UNREADABLE = [
    pytest.param(torch.ones(3).half(), id="half"),
    pytest.param(torch.ones(3).double(), id="double"),
    pytest.param(torch.ones(3, 4).t(), id="transposed"),
    pytest.param(torch.ones(8)[::2], id="strided"),
    pytest.param(torch.ones(3).as_subclass(Subclass), id="of-a-class-of-its-own"),
    pytest.param(torch.empty(0), id="empty"),
    pytest.param(torch.empty(3, device="meta"), id="without-values"),
]


@pytest.mark.parametrize("odd", UNREADABLE)
def test_one_that_cannot_be_read_leaves_all_to_pytorch(odd: torch.Tensor) -> None:
    loops, given = TensorLoops(), [torch.ones(3), odd]
    assert (loops.norms(given), loops.sizes(given), loops.copied(given, given)) == (None, None, None)


@needs_loops
@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(torch.ones(3), id="plain"),
        pytest.param(torch.nn.Parameter(torch.ones(3)), id="parameter"),
        pytest.param(torch.ones(3, 4)[1], id="a-row"),
        pytest.param(torch.ones(2, 3, 4, 4), id="of-four-dimensions"),
    ],
)
def test_others_are_read(plain: torch.Tensor) -> None:
    norms = TensorLoops().norms([plain])
    assert norms is not None
    assert norms[0] == pytest.approx(plain.numel() ** 0.5)


def test_under_a_mode_that_sees_operations_they_are_left_alone() -> None:
    loops, given = TensorLoops(), [torch.ones(3)]
    with Mode():
        assert loops.norms(given) is None


def test_copies_of_other_shapes_are_not_written_to() -> None:
    assert TensorLoops().copied([torch.ones(4)], [torch.ones(3)]) is None


def test_without_the_wheel_there_is_nothing() -> None:
    loops, given = TensorLoops(None), [torch.ones(3)]
    assert (loops.norms(given), loops.sizes(given), loops.copied(given, given)) == (None, None, None)
    assert loops.changed(given, given) is None
