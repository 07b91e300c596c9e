"""The always-on statistics of real training: what full tensors would give, from defaults, and never felt."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import trackside
from trackside.capture.statistics.always_on import AlwaysOn
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.pytorch.statistics import readings as module
from trackside.rules.tensors.exploding_tensor import ExplodingTensor
from trackside.rules.tensors.loss_not_decreasing import LossNotDecreasing
from trackside.rules.tensors.vanishing_gradient import VanishingGradient
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.trial import Trial
from trackside.trial.window import Window

torch.set_num_threads(1)

COLLECTIONS = ("losses", "weights", "biases", "gradients")
EVERY_STEP = StatisticsRequest(budget=1.0, dear_interval=1, dense_start_steps=10**6)
LAST = 10**9


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(6, 5)
        self.fc2 = nn.Linear(5, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(values)))


class Embedded(nn.Module):
    """A sparse gradient beside dense ones, and a parameter that gets none."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 4, sparse=True)
        self.head = nn.Linear(4, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(values.abs().mul(3).long().clamp(max=49)).mean(1))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(values)))


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3, dtype=torch.complex64))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values.to(torch.complex64) @ self.weight).abs()


def train(
    steps: int = 5,
    *,
    model_class: Callable[[], nn.Module] = Net,
    optimizer_class: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    dtype: torch.dtype = torch.float32,
    before_step: Callable[[int, nn.Module, torch.optim.Optimizer], None] = lambda *_: None,
    with_closure: bool = False,
    **settings: Any,
) -> tuple[nn.Module, list[float]]:
    """An ordinary loop; the model and the losses that the script itself saw."""
    torch.manual_seed(0)
    model = model_class() if dtype is torch.float32 else model_class().to(dtype)
    optimizer = optimizer_class(model.parameters(), **{"lr": 0.1, **settings})
    losses = []
    for step in range(steps):
        values, labels = torch.randn(8, 6).to(dtype), torch.randint(0, 3, (8,))

        def closure(values: torch.Tensor = values, labels: torch.Tensor = labels) -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(values), labels)
            loss.backward()
            return loss

        if with_closure:
            losses.append(optimizer.step(closure).item())
            continue
        loss = closure()
        losses.append(loss.item())
        before_step(step, model, optimizer)
        optimizer.step()
    return model, losses


@contextmanager
def capturing(
    run: Path, *collections: str, interval: int = 1, statistics: StatisticsRequest = EVERY_STEP
) -> Iterator[PyTorchAdapter]:
    asked = tuple(CollectionRequest(name, Schedule(interval)) for name in collections)
    request = CaptureRequest(asked, statistics=statistics).to_json()
    capture = PyTorchAdapter(CaptureEnvironment(str(run), request, 0, 1))
    capture.install()
    try:
        yield capture
    finally:
        capture.uninstall()


def opened(run: Path) -> Trial:
    return trackside.open_trial(str(run))


def column(trial: Trial, tensor: str, statistic: str, mode: str | None = "TRAIN") -> dict[int, float]:
    columns = trial.columns(tensor, statistic, last_step=LAST, mode=mode)
    return dict(zip(columns[0].steps.tolist(), columns[0].values.tolist(), strict=True)) if columns else {}


SITUATIONS = [
    pytest.param({}, id="sgd"),
    pytest.param({"momentum": 0.9, "weight_decay": 0.01}, id="momentum"),
    pytest.param({"optimizer_class": torch.optim.Adam, "lr": 0.01}, id="adam"),
    pytest.param({"optimizer_class": torch.optim.AdamW, "lr": 0.01, "fused": True}, id="fused"),
    pytest.param({"optimizer_class": torch.optim.Adam, "lr": 0.01, "foreach": True, "amsgrad": True}, id="foreach"),
    pytest.param({"optimizer_class": torch.optim.LBFGS, "with_closure": True, "max_iter": 4}, id="lbfgs"),
    pytest.param({"with_closure": True}, id="closure"),
    pytest.param({"model_class": Tied}, id="tied"),
    pytest.param({"model_class": Embedded}, id="sparse-and-unused"),
    pytest.param({"dtype": torch.bfloat16}, id="bfloat16"),
    pytest.param({"dtype": torch.float64}, id="float64"),
    pytest.param({"model_class": Complex}, id="complex"),
]


@pytest.mark.parametrize("settings", SITUATIONS)
def test_equal_what_full_tensors_give(settings: dict[str, Any], tmp_path: Path) -> None:
    with capturing(tmp_path / "run", *COLLECTIONS):
        train(**settings)
    trial = opened(tmp_path / "run")
    assert trial.steps() == (0, 1, 2, 3, 4)
    judged = 0
    for name in (*trial.tensor_names(collection="gradients"), *trial.tensor_names(collection="weights")):
        asked = ("l2", "abs_mean", "zero_share", "abs_max") if name.startswith("gradient/") else ("l2",)
        recorded = {statistic: column(trial, name, statistic) for statistic in asked}
        for step in recorded["l2"]:
            value = np.asarray(trial.value(name, step=step, worker="worker_0"))
            flat = np.abs(value).astype(np.float64).reshape(1, -1)
            for statistic in asked:
                expected = float(STATISTICS[statistic](flat)[0])
                tolerance = 2e-2 if settings.get("dtype") is torch.bfloat16 else 2e-6
                assert recorded[statistic][step] == pytest.approx(expected, rel=tolerance, abs=1e-12), (name, statistic)
                judged += 1
    assert judged >= 5 * 5


@pytest.mark.parametrize("settings", SITUATIONS)
def test_updates_are_those_that_the_weights_made(settings: dict[str, Any], tmp_path: Path) -> None:
    with capturing(tmp_path / "run", "weights"):
        train(**settings)
    trial = opened(tmp_path / "run")
    for name in trial.tensor_names(collection="weights"):
        updates, ratios = column(trial, name, "update_l2"), column(trial, name, "update_ratio")
        assert sorted(updates) == [0, 1, 2, 3, 4]
        for step in range(4):
            before, after = (np.asarray(trial.value(name, step=s, worker="worker_0")) for s in (step, step + 1))
            expected = float(np.linalg.norm(np.abs(after - before)))
            size = float(np.linalg.norm(np.abs(before)))
            assert updates[step] == pytest.approx(expected, rel=2e-2 if before.dtype == np.float32 else 1e-6, abs=1e-7)
            assert ratios[step] == pytest.approx(expected / size, rel=2e-2, abs=1e-7)


def test_defaults_record_losses_and_rates_at_every_step(tmp_path: Path) -> None:
    capture = PyTorchAdapter(CaptureEnvironment(str(tmp_path / "run"), "", 0, 1))
    capture.install()
    try:
        _, losses = train(60)
    finally:
        capture.uninstall()
    trial = opened(tmp_path / "run")
    recorded = column(trial, "CrossEntropyLoss_output_0", "mean")
    assert sorted(recorded) == list(range(60))
    np.testing.assert_allclose(list(recorded.values()), losses, rtol=1e-7)
    assert set(column(trial, "CrossEntropyLoss_output_0", "nonfinite_count").values()) == {0.0}
    assert list(column(trial, "hyperparameters/SGD/group_0/lr", "mean").values()) == pytest.approx([0.1] * 60)
    shares = column(trial, "trackside/overhead_share", "mean")
    assert sorted(shares) == list(range(1, 60))
    assert all(share > 0 for share in shares.values())
    norms = column(trial, "gradient/Net_fc1.weight", "l2")
    assert set(range(20)) <= norms.keys()  # the dense start
    assert trial.tensor_names(collection="gradients")
    assert trial.value("CrossEntropyLoss_output_0", step=0, worker="worker_0")


@pytest.mark.parametrize("settings", SITUATIONS)
def test_training_is_bit_equal_with_and_without(settings: dict[str, Any], tmp_path: Path) -> None:
    bare, bare_losses = train(**settings)
    with capturing(tmp_path / "run"):
        hooked, losses = train(**settings)
    assert losses == bare_losses
    for ours, theirs in zip(hooked.parameters(), bare.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_switched_off_by_the_request_it_leaves_nothing(tmp_path: Path) -> None:
    with capturing(tmp_path / "run", "losses", statistics=StatisticsRequest(enabled=False)):
        train()
    assert not Path(RunLocation(str(tmp_path / "run")).statistics).exists()


def test_nothing_is_created_before_the_first_step(tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        model = Net()
        torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1, 6)).sum().backward()
        assert not (tmp_path / "run").exists()


# Situations


def by_mean(values: torch.Tensor, labels: torch.Tensor, *, parts: int) -> torch.Tensor:
    return functional.cross_entropy(values, labels) / parts


def by_factor_of_rows(values: torch.Tensor, labels: torch.Tensor, *, parts: int) -> torch.Tensor:
    return functional.cross_entropy(values, labels) * (len(labels) / ROWS)


def by_sum(values: torch.Tensor, labels: torch.Tensor, *, parts: int) -> torch.Tensor:
    return functional.cross_entropy(values, labels, reduction="sum") / ROWS


def by_hand(values: torch.Tensor, labels: torch.Tensor, *, parts: int) -> torch.Tensor:
    return (values.logsumexp(1) - values.gather(1, labels[:, None])[:, 0]).mean() / parts


ROWS = 16


@pytest.mark.parametrize("parts", [1, 4, 8])
@pytest.mark.parametrize(
    ("loss_of", "name", "is_ragged"),
    [
        pytest.param(by_mean, "CrossEntropyLoss", False, id="means-divided-by-the-parts"),
        pytest.param(by_factor_of_rows, "CrossEntropyLoss", True, id="means-of-unequal-parts"),
        pytest.param(by_sum, "CrossEntropyLoss", True, id="sums-divided-by-all-rows"),
        pytest.param(by_hand, "loss", False, id="a-loss-by-hand"),
    ],
)
def test_parts_of_a_loss_are_recorded_as_the_one_that_the_step_minimises(
    loss_of: Callable[..., torch.Tensor], name: str, is_ragged: bool, parts: int, tmp_path: Path
) -> None:
    """Issue 41. The oracle: cross entropy of all rows at once, before the step."""
    torch.manual_seed(0)
    model = Net()
    rows, labels = torch.randn(ROWS, 6), torch.randint(0, 3, (ROWS,))
    ends = [round(k * ROWS / parts) for k in range(1, parts)]
    if is_ragged and parts > 1:
        ends[0] += 1
    with capturing(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = []
        for _ in range(40):
            optimizer.zero_grad()
            with torch.no_grad():
                seen.append(-model(rows).log_softmax(1)[torch.arange(ROWS), labels].mean().item())
            for part, wanted in zip(rows.tensor_split(ends), labels.tensor_split(ends), strict=True):
                loss_of(model(part), wanted, parts=parts).backward()
            optimizer.step()
    trial = opened(tmp_path / "run")
    assert list(column(trial, f"{name}_output_0", "mean").values()) == pytest.approx(seen, rel=1e-4)
    assert not column(trial, f"{name}_output_1", "mean")


def undivided(net: nn.Module, rows: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    return [functional.cross_entropy(net(rows), labels), functional.cross_entropy(net(rows + 1), labels)]


def one_divided(net: nn.Module, rows: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    return [functional.cross_entropy(net(rows), labels), functional.cross_entropy(net(rows + 1), labels) / 2]


def enlarged(net: nn.Module, rows: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    return [2 * functional.cross_entropy(net(rows), labels), 2 * functional.cross_entropy(net(rows + 1), labels)]


@pytest.mark.parametrize(
    "losses_of",
    [
        pytest.param(undivided, id="accumulation-without-division"),
        pytest.param(one_divided, id="only-one-is-divided"),
        pytest.param(enlarged, id="weighted-losses"),
    ],
)
def test_losses_that_are_no_parts_are_told_apart(losses_of: Callable[..., list[torch.Tensor]], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net()
    rows, labels = torch.randn(4, 6), torch.randint(0, 3, (4,))
    with capturing(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = []
        for _ in range(3):
            optimizer.zero_grad()
            with torch.no_grad():
                seen.append([functional.cross_entropy(model(rows + k), labels).item() for k in range(2)])
            for loss in losses_of(model, rows, labels):
                loss.backward()
            optimizer.step()
    trial = opened(tmp_path / "run")
    for k in range(2):
        recorded = column(trial, f"CrossEntropyLoss_output_{k}", "mean")
        assert list(recorded.values()) == pytest.approx([losses[k] for losses in seen], rel=1e-4)


def test_divided_losses_of_two_optimizers_are_told_apart(tmp_path: Path) -> None:
    """As in the training of a GAN: each half has its own step."""
    torch.manual_seed(0)
    models = [Net(), Net()]
    rows, labels = torch.randn(4, 6), torch.randint(0, 3, (4,))
    with capturing(tmp_path / "run"):
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        seen: list[list[float]] = [[], []]
        for _ in range(6):
            for model, optimizer, losses in zip(models, optimizers, seen, strict=True):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(rows), labels)
                (loss / 2).backward()
                losses.append(loss.item())
                optimizer.step()
    trial = opened(tmp_path / "run")
    recorded = [list(column(trial, f"CrossEntropyLoss_output_{k}", "mean").values()) for k in range(2)]
    for found, losses in zip(recorded, seen, strict=True):
        assert found[-3:] == pytest.approx(losses[-3:], rel=1e-4)


def test_the_rate_that_the_step_used(tmp_path: Path) -> None:
    def halve(_step: int, _model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.param_groups[0]["lr"] /= 2

    with capturing(tmp_path / "run"):
        train(4, before_step=halve, lr=0.8)
    rates = column(opened(tmp_path / "run"), "hyperparameters/SGD/group_0/lr", "mean")
    assert list(rates.values()) == pytest.approx([0.4, 0.2, 0.1, 0.05])


def test_a_rate_that_is_a_tensor(tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        train(2, lr=torch.tensor(0.25))
    rates = column(opened(tmp_path / "run"), "hyperparameters/SGD/group_0/lr", "mean")
    assert rates == {0: 0.25, 1: 0.25}


def test_what_has_no_gradient_is_not_measured_and_said_to_be_absent(tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        train(3, model_class=Embedded)
    trial = opened(tmp_path / "run")
    assert column(trial, "gradient/Embedded_unused.weight", "is_present") == {0: 0.0, 1: 0.0, 2: 0.0}
    assert column(trial, "gradient/Embedded_head.weight", "is_present") == {0: 1.0, 1: 1.0, 2: 1.0}
    for statistic in ("l2", "abs_mean", "zero_share", "abs_max", "nonfinite_count"):
        assert column(trial, "gradient/Embedded_unused.weight", statistic) == {}
    assert sorted(column(trial, "Embedded_unused.weight", "l2")) == [0, 1, 2]


def test_no_gradient_at_all(tmp_path: Path) -> None:
    model = Net()
    with capturing(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.step()
    trial = opened(tmp_path / "run")
    assert set(column(trial, "gradient/Net_fc1.weight", "is_present").values()) == {0.0}
    assert column(trial, "Net_fc1.weight", "update_l2") == {0: 0.0, 1: 0.0, 2: 0.0}


def test_two_optimizers_share_a_step(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = Net(), Net()
    with capturing(tmp_path / "run", "gradients"):
        optimizers = [torch.optim.SGD(m.parameters(), lr=r) for m, r in ((first, 0.1), (second, 0.2))]
        for _ in range(3):
            for model, optimizer in zip((first, second), optimizers, strict=True):
                optimizer.zero_grad()
                functional.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 3, (4,))).backward()
                optimizer.step()
    trial = opened(tmp_path / "run")
    for name, rate in (("SGD", 0.1), ("SGD2", 0.2)):
        rates = column(trial, f"hyperparameters/{name}/group_0/lr", "mean")
        assert rates == {step: pytest.approx(rate) for step in range(3)}
    for k in range(2):
        assert sorted(column(trial, f"CrossEntropyLoss_output_{k}", "mean")) == [0, 1, 2]
    for root in ("Net", "Net2"):
        name = f"gradient/{root}_fc1.weight"
        for step, l2 in column(trial, name, "l2").items():
            assert l2 == pytest.approx(np.linalg.norm(trial.value(name, step=step, worker="worker_0")), rel=1e-6)


def test_two_optimizers_of_one_parameter(tmp_path: Path) -> None:
    model = Net()
    with capturing(tmp_path / "run"):
        optimizers = [torch.optim.SGD(model.parameters(), lr=r) for r in (0.1, 0.2)]
        for _ in range(2):
            functional.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 3, (4,))).backward()
            for optimizer in optimizers:
                optimizer.step()
    trial = opened(tmp_path / "run")
    assert sorted(column(trial, "gradient/Net_fc1.weight", "l2")) == [0, 1]
    assert sorted(column(trial, "Net_fc1.weight", "update_l2")) == [0, 1]


def test_a_replaced_parameter_is_followed(tmp_path: Path) -> None:
    def replace(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if step == 2:
            model.fc2 = nn.Linear(5, 3)  # type: ignore[assignment] # nn.Module's own typing
            optimizer.param_groups[0]["params"][2:] = list(model.fc2.parameters())  # type: ignore[union-attr] # as above

    with capturing(tmp_path / "run"):
        train(6, before_step=replace)
    trial = opened(tmp_path / "run")
    present = column(trial, "gradient/Net_fc2.weight", "is_present")
    assert present == {0: 1.0, 1: 1.0, 2: 0.0, 3: 1.0, 4: 1.0, 5: 1.0}
    assert sorted(column(trial, "Net_fc2.weight", "update_l2")) == [0, 1, 2, 3, 4, 5]


def test_evaluation_losses_have_rows_of_their_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net()
    with capturing(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = []
        for _ in range(2):
            optimizer.zero_grad()
            functional.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 3, (4,))).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                for _ in range(3):
                    loss = functional.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 3, (4,)))
                    seen.append(loss.item())
            model.train()
    trial = opened(tmp_path / "run")
    evaluated = column(trial, "CrossEntropyLoss_output_0", "mean", "EVAL")
    np.testing.assert_allclose(list(evaluated.values()), seen, rtol=1e-6)
    assert list(evaluated) == [1, 2, 3, 5, 6, 7]
    assert list(column(trial, "CrossEntropyLoss_output_0", "mean", "TRAIN")) == [0, 4]


def test_amp_gradients_are_those_that_the_optimizer_uses(tmp_path: Path) -> None:
    """A fused optimizer divides by the scale inside of its step."""

    def scale(_step: int, model: nn.Module, optimizer: Any) -> None:
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(64.0), torch.tensor(0.0)
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(64)

    with capturing(tmp_path / "plain"):
        train(3, fused=True)
    with capturing(tmp_path / "scaled"):
        train(3, fused=True, before_step=scale)
    plain, scaled = opened(tmp_path / "plain"), opened(tmp_path / "scaled")
    for statistic in ("l2", "abs_mean", "abs_max", "zero_share"):
        expected = column(plain, "gradient/Net_fc1.weight", statistic)
        assert expected
        assert column(scaled, "gradient/Net_fc1.weight", statistic) == pytest.approx(expected, rel=1e-6)


def poison(at: int, value: float, elements: int = 2) -> Callable[..., None]:
    def before_step(step: int, model: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if step == at:
            model.fc1.weight.grad.view(-1)[:elements] = value  # type: ignore[union-attr,operator] # nn.Module's typing

    return before_step


@pytest.mark.parametrize(
    ("value", "count", "nan_count"),
    [pytest.param(float("nan"), 2, 2, id="nan"), pytest.param(float("inf"), 2, None, id="infinity")],
)
def test_what_is_not_finite_is_counted(value: float, count: int, nan_count: int | None, tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        train(4, before_step=poison(2, value), lr=0.0)
    trial = opened(tmp_path / "run")
    assert column(trial, "gradient/Net_fc1.weight", "nonfinite_count")[2] == count
    assert column(trial, "gradient/Net_fc1.weight", "nan_count")[2] == (nan_count or 0)
    assert not np.isfinite(column(trial, "gradient/Net_fc1.weight", "l2")[2])
    sound = column(trial, "gradient/Net_fc2.weight", "nonfinite_count")
    assert [sound[step] for step in (0, 1, 2)] == [0.0, 0.0, 0.0]


def test_a_norm_beyond_single_precision_is_not_called_infinite(tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        train(3, before_step=poison(1, 3e38), lr=0.0)
    trial = opened(tmp_path / "run")
    assert set(column(trial, "gradient/Net_fc1.weight", "nonfinite_count").values()) == {0.0}
    assert column(trial, "gradient/Net_fc1.weight", "l2")[1] > 3e38


def test_dense_again_after_something_unusual(tmp_path: Path) -> None:
    statistics = StatisticsRequest(budget=1.0, dear_interval=1000, dense_start_steps=3, dense_after_steps=4)
    with capturing(tmp_path / "run", statistics=statistics):
        train(40, before_step=poison(30, float("inf"), elements=1), lr=0.0)
    trial = opened(tmp_path / "run")
    assert sorted(column(trial, "Net_fc1.weight", "update_l2")) == [0, 1, 2, 31, 32, 33, 34]


def test_wide_models_record_groups(tmp_path: Path) -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)) for _ in range(50))
            self.head = nn.Linear(6, 3)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            for block in self.blocks[:40]:
                values = values + 0.1 * block(values)
            return self.head(values)

    with capturing(tmp_path / "run"):
        train(3, model_class=Wide)
    trial = opened(tmp_path / "run")
    for step, l2 in column(trial, "group/gradient/Wide_blocks.7", "l2").items():
        parts = [f"gradient/Wide_blocks.7.{k}.{kind}" for k in range(2) for kind in ("weight", "bias")]
        assert l2 == pytest.approx(sum(column(trial, name, "l2")[step] ** 2 for name in parts) ** 0.5, rel=1e-5)
    assert column(trial, "group/gradient/Wide_blocks.45", "l2") == {}
    assert set(column(trial, "gradient/Wide_blocks.45.0.weight", "is_present").values()) == {0.0}


def test_a_model_too_large_to_be_copied_takes_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 130)  # fc1's weight alone, then the rest
    monkeypatch.setattr(module, "MOST_PARTS", 1000)
    with capturing(tmp_path / "run"):
        train(6)
    trial = opened(tmp_path / "run")
    steps = {name: sorted(column(trial, f"Net_{name}", "update_l2")) for name in ("fc1.weight", "fc1.bias")}
    assert steps["fc1.weight"]
    assert not set(steps["fc1.weight"]) & set(steps["fc1.bias"])
    assert sorted(column(trial, "gradient/Net_fc1.bias", "l2")) == list(range(6))


def test_numbers_on_their_way_are_recorded_under_their_own_step(tmp_path: Path) -> None:
    """As on a GPU, where nothing waits for the device: here each tensor is said to be far away."""
    with capturing(tmp_path / "near"):
        train(6)
    request = CaptureRequest((), statistics=EVERY_STEP).to_json()
    capture = PyTorchAdapter(CaptureEnvironment(str(tmp_path / "far"), request, 0, 1))
    capture.steps.sources.statistics.numbers.is_late = lambda _: True
    capture.install()
    try:
        train(6, lr=torch.tensor(0.1))
    finally:
        capture.uninstall()
    near_trial, far_trial = opened(tmp_path / "near"), opened(tmp_path / "far")
    names = [("CrossEntropyLoss_output_0", "mean"), ("hyperparameters/SGD/group_0/lr", "mean")]
    names += [("gradient/Net_fc1.weight", s) for s in ("l2", "abs_mean", "zero_share", "abs_max", "is_present")]
    names += [("Net_fc1.weight", s) for s in ("l2", "update_l2", "update_ratio")]
    for name, statistic in names:
        expected = column(near_trial, name, statistic)
        assert sorted(expected) == list(range(6))
        assert column(far_trial, name, statistic) == pytest.approx(expected, rel=1e-5, abs=1e-7), (name, statistic)


def test_an_error_of_ours_ends_statistics_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(module.PyTorchStatistics, "_norms_here", broken)
    with capturing(tmp_path / "run", "losses"):
        train(4)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "statistics are switched off, all else goes on" in said[0]
    assert "planted" in said[0]
    assert opened(tmp_path / "run").steps() == (0, 1, 2, 3)


def test_models_and_optimizers_can_be_freed(tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        model: nn.Module | None = train()[0]
        assert isinstance(model, Net)
        reference = weakref.ref(model.fc1.weight)
        del model
        gc.collect()
        assert reference() is None


def test_losses_keep_no_graph_alive(tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        model = Net()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        loss = functional.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 3, (4,)))
        loss.backward()
        reference = weakref.ref(loss)
        del loss
        gc.collect()
        assert reference() is None


# Rules that see nothing but statistics


def judged(rule: Any, trial: Trial, steps: list[int]) -> dict[int, list[str]]:
    return {step: [f.subject for f in rule.check(trial.window(step, now=0.0))] for step in steps}


def test_exploding_tensor_judges_from_statistics_alone(tmp_path: Path) -> None:
    with capturing(tmp_path / "run", "losses", interval=10**6):
        train(8, before_step=poison(5, float("nan")))
    found = judged(ExplodingTensor(), opened(tmp_path / "run"), list(range(8)))
    assert [step for step, subjects in found.items() if subjects] == [5, 6, 7]
    assert found[5] == ["gradient/Net_fc1.weight"]
    assert {"CrossEntropyLoss_output_0", "Net_fc1.weight"} <= set(found[6])


def test_vanishing_gradient_judges_from_statistics_alone(tmp_path: Path) -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(20))
            self.head = nn.Linear(6, 3)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                values = torch.sigmoid(layer(values))
            return self.head(values)

    with capturing(tmp_path / "run", "losses", interval=10**6):
        train(4, model_class=Deep)
    with capturing(tmp_path / "sound", "losses", interval=10**6):
        train(4)
    found = judged(VanishingGradient(), opened(tmp_path / "run"), [1, 2, 3])
    assert all("gradient/Deep_layers.0.weight" in subjects for subjects in found.values())
    assert not any(judged(VanishingGradient(), opened(tmp_path / "sound"), [1, 2, 3]).values())


@pytest.mark.parametrize(
    ("rate", "is_found"), [pytest.param(0.0, True, id="stands-still"), pytest.param(0.5, False, id="learns")]
)
def test_loss_not_decreasing_judges_from_statistics_alone(rate: float, is_found: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    values = torch.randn(32, 6)
    labels = values[:, :3].argmax(1)
    model = Net()
    statistics = StatisticsRequest(budget=0.02)
    with capturing(tmp_path / "run", "losses", interval=10**6, statistics=statistics):
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for _ in range(600):
            optimizer.zero_grad()
            functional.cross_entropy(model(values), labels).backward()
            optimizer.step()
    found = judged(LossNotDecreasing(num_steps=200), opened(tmp_path / "run"), [399])  # as an evaluator does on its way
    assert bool(found[399]) is is_found


def test_the_class_behind_it_knows_no_torch() -> None:
    assert AlwaysOn(StatisticsRequest()).takes_dear


@pytest.mark.parametrize("fused", [pytest.param(False, id="plain"), pytest.param(True, id="fused")])
def test_of_a_skipped_step_nothing_is_judged_that_no_optimizer_used(fused: bool, tmp_path: Any) -> None:
    """Issue 41. A fused optimizer is called at skipped steps, too, and told to change nothing."""
    with capturing(tmp_path / "run", "gradients"):
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number in range(5):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(torch.ones(2, 4)), torch.zeros(2, 1))
            scaler.scale(loss * (float("inf") if number in {0, 2, 3} else 1.0)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    trial = opened(tmp_path / "run")
    made = [1, 4] if fused else [0, 1]

    def steps_of(name: str, statistic: str) -> list[int]:
        return list(column(trial, name, statistic, mode=None))

    assert steps_of("Linear_weight", "update_ratio") == made
    assert steps_of("trackside/clipping", "mean") == made
    assert not steps_of("MSELoss_output_1", "mean")
    name = "trackside/skipped_step" if fused else "trackside/skipped_before"
    assert sum(column(trial, name, "mean", mode=None).values()) == 3
    for step in trial.steps():
        window = Window(trial, step=step, mode="TRAIN", now=0.0, newest_step_at=0.0)
        assert list(ExplodingTensor(collection_names="gradients").check(window)) == []
