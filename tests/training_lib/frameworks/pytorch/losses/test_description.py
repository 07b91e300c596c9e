"""What a loss was multiplied by: known at once on the CPU, kept for later where it lies on a device."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from trackside.frameworks.pytorch.losses.description import LateScale, LossDescription, describe_loss
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers

NOWHERE = torch.tensor(0.0)


@pytest.mark.parametrize(
    ("scale", "numbers", "expected"),
    [
        pytest.param(LateScale((NOWHERE,), (False,)), [1024.0], 1024.0, id="factor"),
        pytest.param(LateScale((NOWHERE,), (True,)), [4.0], 0.25, id="divisor"),
        pytest.param(LateScale((NOWHERE, NOWHERE), (False, True), 0.5), [1024.0, 4.0], 128.0, id="several"),
        pytest.param(LateScale((NOWHERE,), (False,), 0.5), [0.0], 1.0, id="zero"),
        pytest.param(LateScale((NOWHERE,), (False,), 0.5), [math.inf], 1.0, id="infinite"),
        pytest.param(LateScale((NOWHERE,), (True,), 0.5), [math.nan], 1.0, id="nan"),
        pytest.param(LateScale((NOWHERE,), (False,), is_amp_only=True), [65536.0], 65536.0, id="amp"),
        pytest.param(LateScale((NOWHERE,), (False,), is_amp_only=True), [3.0], 1.0, id="not-amp"),
        pytest.param(LateScale((NOWHERE,), (False,), is_amp_only=True), [2.0], 1.0, id="too-small-for-amp"),
        pytest.param(LateScale((NOWHERE,), (False,), is_amp_only=True), [math.inf], 1.0, id="amp-infinite"),
    ],
)
def test_the_scale_of_numbers_that_have_come(scale: LateScale, numbers: list[float], expected: float) -> None:
    assert scale.of(numbers) == expected


def on_meta(reduction: str = "mean") -> torch.Tensor:
    """A loss on the device that has no numbers at all: to ask for one raises."""
    scores = torch.zeros(4, 3, device="meta", requires_grad=True)
    return functional.cross_entropy(scores, torch.zeros(4, dtype=torch.long, device="meta"), reduction=reduction)


@pytest.mark.parametrize(
    ("loss", "name", "late", "known", "is_amp_only"),
    [
        pytest.param(on_meta() * torch.empty((), device="meta"), "CrossEntropyLoss", 1, 1.0, False, id="amp"),
        pytest.param(on_meta() / 4 * torch.empty((), device="meta"), "CrossEntropyLoss", 1, 0.25, False, id="parts"),
        pytest.param(on_meta() / torch.empty((), device="meta"), "CrossEntropyLoss", 1, 1.0, False, id="divided"),
        pytest.param(on_meta("sum") * torch.empty((), device="meta"), "CrossEntropyLoss", 1, 1.0, True, id="sum"),
        pytest.param(
            on_meta().square() * torch.empty((), device="meta"), "loss", 1, 1.0, True, id="unknown"
        ),
        pytest.param(on_meta() / 4, "CrossEntropyLoss", 0, 0.25, False, id="constants-of-python"),
        pytest.param(on_meta(), "CrossEntropyLoss", 0, 1.0, False, id="none"),
    ],
)  # fmt: skip
def test_a_graph_is_described_without_asking_the_device(
    loss: torch.Tensor, name: str, late: int, known: float, is_amp_only: bool
) -> None:
    description = describe_loss(loss.grad_fn)
    assert description.name == name
    if not late:
        assert description.read_scale() == known
        return
    scale = description.scale
    assert isinstance(scale, LateScale)
    assert [len(scale.factors), scale.constant, scale.is_amp_only] == [late, known, is_amp_only]
    with pytest.raises((RuntimeError, NotImplementedError)):
        description.read_scale()


def test_a_capture_step_reads_the_scale() -> None:
    late = LateScale((torch.tensor(1024.0), torch.tensor([2.0])), (False, True), 0.5)
    assert LossDescription("loss", late).read_scale() == 256.0


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        pytest.param(1.0, 6.0, id="none"),
        pytest.param(4.0, 1.5, id="known"),
        pytest.param(LateScale((torch.tensor(8.0),), (False,), 0.5), 1.5, id="late"),
        pytest.param(LateScale((torch.tensor(math.inf),), (False,), 0.5), 6.0, id="late-and-infinite"),
    ],
)
def test_a_loss_is_unscaled_on_the_host(scale: float | LateScale, expected: float) -> None:
    here = DeviceNumbers(lambda _: False)
    assert here.take_loss(torch.tensor(6.0), scale) == expected
    assert not here.is_used
    there = DeviceNumbers(lambda _: True)
    value = torch.tensor(6.0)
    taken = there.take_loss(value, scale)
    value.zero_()  # the script may write over it before the step ends
    assert not isinstance(taken, float)
    there.send()
    assert not taken.is_here()
    there.wait(0)
    assert taken.is_here()
    assert taken.get().tolist() == [expected]
