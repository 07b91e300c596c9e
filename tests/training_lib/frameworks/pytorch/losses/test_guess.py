"""What one constant answer to all batches so far costs, against that cost over all of their targets at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from trackside.frameworks.pytorch.losses.guess import GuessSoFar

Loss = Callable[..., Tensor]
BINARY, NLL = functional.binary_cross_entropy_with_logits, functional.nll_loss


def batches(kind: str, *, rows: int = 8, count: int = 12) -> list[Tensor]:
    torch.manual_seed(0)
    made = {
        "classes": lambda: torch.distributions.Categorical(torch.tensor([0.6, 0.3, 0.1])).sample((rows,)),
        "tokens": lambda: torch.randint(6, (rows, 10)),
        "yes or no": lambda: torch.bernoulli(torch.tensor([0.1, 0.5, 0.9, 0.0]).expand(rows, 4)),
        "numbers": lambda: torch.randn(rows, 3) * torch.tensor([1.0, 10.0, 0.1]) + 1e3,
    }
    return [made[kind]() for _ in range(count)]


def guesses(loss: Loss, targets: Sequence[Tensor], **options: object) -> list[float | None]:
    """Return what each look finds."""
    so_far, found = GuessSoFar(), list[float | None]()
    for each in targets:
        shape = each.shape if each.is_floating_point() else (len(each), 6, *each.shape[1:])
        predictions = torch.zeros(shape, requires_grad=True)
        guess = so_far.add(loss(predictions, each, **options).grad_fn)
        found.append(None if guess is None else float(guess))
    return found


def best(loss: Loss, targets: Tensor) -> float:
    """What the best constant answer costs, found by descent."""
    shape = targets.shape[1:] if targets.is_floating_point() else (6, *targets.shape[1:])
    columns = targets.mean(0) if loss is functional.mse_loss else torch.zeros(shape)
    constant = columns.requires_grad_()
    optimizer = torch.optim.LBFGS([constant], max_iter=200)

    def cost() -> Tensor:
        optimizer.zero_grad()
        spread = loss(constant.expand(len(targets), *shape), targets)
        spread.backward()
        return spread

    optimizer.step(cost)  # type: ignore[arg-type] # torch wants a float
    return cost().item()


@pytest.mark.parametrize(
    ("loss", "kind", "error"),
    [
        pytest.param(functional.cross_entropy, "classes", 0.05, id="classes"),
        pytest.param(BINARY, "yes or no", 0.01, id="yes-or-no"),
        pytest.param(functional.mse_loss, "numbers", 0.01, id="numbers-far-from-zero"),
    ],
)
def test_it_is_what_the_best_constant_costs(loss: Loss, kind: str, error: float) -> None:
    targets = batches(kind)
    assert guesses(loss, targets)[-1] == pytest.approx(best(loss, torch.cat(targets)), rel=error)


def test_small_batches_of_many_classes_come_out_right_together() -> None:
    """Eight labels alone have at most the entropy of eight classes."""
    found = guesses(functional.cross_entropy, [torch.randint(6, (8,)) for _ in range(60)])
    assert found[-1] == pytest.approx(1.792, rel=0.02)


@pytest.mark.parametrize(
    ("loss", "targets", "known"),
    [
        pytest.param(functional.cross_entropy, batches("tokens"), [True] * 12, id="tokens-at-each-place"),
        pytest.param(functional.mse_loss, batches("numbers"), [False] + [True] * 11, id="from-sixteen-rows-on"),
        pytest.param(
            functional.cross_entropy, [torch.arange(6)] * 8, [False] * 4 + [True] * 4, id="from-five-of-each-class-on"
        ),
        pytest.param(
            functional.mse_loss,
            [torch.randn(8, width) for width in (3, 3, 5, 5, 5)],
            [False, True, False, True, True],
            id="another-width-begins-anew",
        ),
        pytest.param(functional.l1_loss, batches("numbers"), [False] * 12, id="absolute-errors"),
        pytest.param(functional.mse_loss, [torch.zeros(())] * 3, [False] * 3, id="a-number-alone"),
    ],
)
def test_when_it_is_known(loss: Loss, targets: list[Tensor], known: list[bool]) -> None:
    assert [guess is not None for guess in guesses(loss, targets)] == known


@pytest.mark.parametrize(
    ("loss", "kind", "options"),
    [
        pytest.param(functional.cross_entropy, "classes", {"weight": torch.ones(6)}, id="weights-of-classes"),
        pytest.param(BINARY, "yes or no", {"pos_weight": torch.ones(4)}, id="weight-of-yes"),
        pytest.param(functional.mse_loss, "numbers", {"reduction": "sum"}, id="a-sum"),
        pytest.param(functional.cross_entropy, "classes", {"label_smoothing": 0.1}, id="smoothed-labels"),
    ],
)
def test_other_losses_have_none(loss: Loss, kind: str, options: dict[str, object]) -> None:
    assert set(guesses(loss, batches(kind), **options)) == {None}


def test_ignored_places_do_not_count() -> None:
    padded = [torch.cat([each, torch.full((40,), -100)]) for each in batches("classes")]
    assert guesses(functional.cross_entropy, padded) == guesses(functional.cross_entropy, batches("classes"))
