"""Dense targets that are flipped or rotated against their inputs; nothing for those in place, alike or unrelated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.turned_targets import turned_share

torch.set_num_threads(1)
ROWS, SIDE = 16, 24
Loss = Callable[[Tensor, Tensor], Tensor]


def discs(centre: Tensor, radius: Tensor) -> Tensor:
    """Return masks, shape (rows, height, width)."""
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    distance = (y - centre[:, 0, None, None]) ** 2 + (x - centre[:, 1, None, None]) ** 2
    return distance < radius[:, None, None] ** 2


def anywhere() -> Tensor:
    return discs(torch.randint(3, 9, (ROWS, 2)), torch.randint(2, 4, (ROWS,)))


def in_the_middle() -> Tensor:
    return discs(torch.full((ROWS, 2), SIDE / 2 - 0.5), torch.randint(4, 9, (ROWS,)))


def picture(masks: Tensor) -> Tensor:
    return masks[:, None].float() + 0.2 * torch.randn(ROWS, 1, SIDE, SIDE)


def fields() -> Tensor:
    return functional.interpolate(torch.randn(ROWS, 1, 6, 6), size=SIDE, mode="bilinear")


def share(pictures: Tensor, targets: Tensor, loss: Loss = functional.cross_entropy) -> Tensor | None:
    is_of_classes = loss is functional.cross_entropy
    net = nn.Sequential(nn.Conv2d(pictures.shape[1], 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1 + is_of_classes, 1))
    return turned_share(loss(net(pictures), targets).grad_fn)


def half(turn: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    return torch.cat([turn(values[::2]), values[1::2]])


def halves(values: Tensor) -> Tensor:
    return torch.cat([values[::2], values[1::2]])


@pytest.mark.parametrize(
    ("turn", "least"),
    [
        pytest.param(lambda m: half(lambda each: each.flip(-1), m), 0.2, id="flips of every other one"),
        pytest.param(lambda m: half(lambda each: each.flip(-2), m), 0.2, id="flips upside down"),
        pytest.param(lambda m: half(lambda each: each.rot90(1, (1, 2)), m), 0.2, id="quarter turns"),
        pytest.param(lambda m: halves(m).rot90(2, (1, 2)), 0.4, id="half turns of all"),
    ],
)
def test_turned_masks(turn: Callable[[Tensor], Tensor], least: float) -> None:
    torch.manual_seed(0)
    masks = anywhere()
    found = share(halves(picture(masks)), turn(masks).long())
    assert found is not None
    assert float(found) > least


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(functional.mse_loss, id="squared error"),
        pytest.param(functional.smooth_l1_loss, id="smooth L1"),
        pytest.param(lambda p, t: functional.binary_cross_entropy_with_logits(p, t.sigmoid()), id="binary"),
        pytest.param(lambda p, t: 2 * functional.mse_loss(p, t) + p.abs().mean(), id="within a sum"),
    ],
)
def test_turned_maps(loss: Loss) -> None:
    torch.manual_seed(0)
    values = fields()
    found, as_it_is = share(values, values.transpose(2, 3), loss), share(values, 2 * values, loss)
    assert found is not None
    assert as_it_is is not None
    assert float(found) > 0.5 > float(as_it_is) == 0


def one_of_two() -> tuple[Tensor, Tensor]:
    """Return pictures with an object on both sides, and targets that name the left one."""
    masks = anywhere()
    return picture(masks | masks.flip(-1)), masks.long()


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(lambda m: (picture(m), m.long()), id="in place"),
        pytest.param(lambda m: (picture(m).flip(-1), m.flip(-1).long()), id="flipped together"),
        pytest.param(lambda m: (-picture(m), m.long()), id="dark objects"),
        pytest.param(lambda _: (picture(in_the_middle()), in_the_middle().long()), id="alike on both sides"),
        pytest.param(lambda m: (torch.randn(ROWS, 1, SIDE, SIDE), m.long()), id="targets that do not show"),
        pytest.param(lambda m: (fields(), m.long()), id="blobs and other targets"),
        pytest.param(lambda _: one_of_two(), id="one of two objects"),
        pytest.param(lambda m: (picture(m), torch.zeros_like(m).long()), id="one class"),
        pytest.param(lambda m: (picture(m).fill_(torch.nan), m.long()), id="not finite"),
    ],
)
def test_targets_in_place(pair: Callable[[Tensor], tuple[Tensor, Tensor]]) -> None:
    torch.manual_seed(0)
    numbers = []
    for _ in range(8):
        found = share(*pair(anywhere()))
        assert found is not None
        numbers.append(float(found))
    assert sorted(numbers)[4] < 0.1


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda x: functional.cross_entropy(nn.Conv2d(1, 3, 3)(x).mean((2, 3)), torch.ones(ROWS).long())),
        pytest.param(lambda x: functional.mse_loss(nn.Linear(SIDE, SIDE)(x), x), id="no convolution"),
        pytest.param(lambda x: functional.mse_loss(nn.Conv2d(1, 1, 3)(x), x[..., 1:-1, 1:-1]), id="other sizes"),
        pytest.param(lambda x: nn.Conv2d(1, 1, 3)(x).square().mean(), id="no target"),
        pytest.param(lambda x: functional.mse_loss(nn.Conv2d(1, 1, 1)(x[..., :4, :4]), x[..., :4, :4]), id="small"),
    ],
)
def test_other_losses(loss: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    assert turned_share(loss(torch.randn(ROWS, 1, SIDE, SIDE)).grad_fn) is None
