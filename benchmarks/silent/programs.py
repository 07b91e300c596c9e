"""Small programs, each with one silent error of TrainCheck's list and a clean twin.

What goes wrong is re-made, not the library in which it went wrong. Two ranks are two processes with gloo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

STEPS = 150
Program = Callable[[bool], None]


def data(*, rows: int = 1600, scale: float = 1.0) -> TensorDataset:
    """Return rows of 8 numbers in 3 classes that a line separates nearly."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(rows, 8, generator=generator)
    scores = values @ torch.randn(8, 3, generator=generator) + 0.3 * torch.randn(rows, 3, generator=generator)
    return TensorDataset(values * scale, scores.argmax(1))


def batches(source: Any = None, *, count: int = STEPS, **settings: Any) -> Iterator[Any]:
    """Return shuffled batches of 32 rows, epoch after epoch."""
    loader = DataLoader(data() if source is None else source, batch_size=32, **{"shuffle": True, **settings})
    while count > 0:
        for batch in loader:
            if count == 0:
                return
            count -= 1
            yield batch


def network(*inside: nn.Module) -> nn.Sequential:
    """Return a small classifier."""
    return nn.Sequential(nn.Linear(8, 32), *(inside or (nn.ReLU(),)), nn.Linear(32, 3))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, values: Any, labels: Any, *, clears: bool = True) -> None:
    """Make one step."""
    if clears:
        optimizer.zero_grad()
    functional.cross_entropy(model(values), labels).backward()
    optimizer.step()


def train(model: nn.Module, source: Iterator[Any] | None = None, *, lr: float = 0.01, **settings: Any) -> None:
    """Train with Adam."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr)
    for values, labels in source or batches():
        step(model, optimizer, values, labels, **settings)


def clipping_on_one_rank(is_faulty: bool) -> None:
    """Clip the gradients of replicated layers on one rank only (deepspeed-1801)."""
    model = network(nn.LayerNorm(32), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for values, labels in batches():
        optimizer.zero_grad()
        functional.cross_entropy(model(values), labels).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad.div_(2)
        if not is_faulty or torch.distributed.get_rank() == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 0.2)
        optimizer.step()


def frozen_only_by_train(is_faulty: bool) -> None:
    """Freeze stages in `train()`, which is never called (mmpretrain-702)."""

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(8, 32), nn.Linear(32, 3)

        def train(self, mode: bool = True) -> Any:
            self.stem.requires_grad_(False)
            return super().train(mode)

        def forward(self, values: torch.Tensor) -> Any:
            return self.head(torch.relu(self.stem(values)))

    model = Backbone()
    if not is_faulty:
        model.train()
    train(model)


def spectral_norm_in_eval_mode(is_faulty: bool) -> None:
    """Use spectral normalisation before training mode has estimated anything (pytorch-51800)."""
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 32)), nn.ReLU(), nn.Linear(32, 3))
    model.train(not is_faulty)
    train(model)


def hooks_lost(is_faulty: bool) -> None:
    """Change the module after DDP has placed its hooks, so that gradients are averaged no more (pytorch-104336)."""
    model = network()
    wrapped = nn.parallel.DistributedDataParallel(model)
    if is_faulty:
        for layer in (model[0], model[2]):
            for name, parameter in list(layer.named_parameters()):
                setattr(layer, name, nn.Parameter(parameter.detach().clone()))
    train_on_ranks(wrapped)


def step_that_stays_frozen(is_faulty: bool) -> None:
    """Go on without effect after one step without gradients (pytorch-115607)."""

    class Compiled(torch.optim.Adam):
        is_frozen = False

        def step(self, closure: Any = None) -> Any:
            has_gradient = any(p.grad is not None for group in self.param_groups for p in group["params"])
            self.is_frozen = self.is_frozen or (is_faulty and not has_gradient)
            return None if self.is_frozen else super().step(closure)

    model = network()
    optimizer = Compiled(model.parameters(), 0.01)
    optimizer.step()
    for values, labels in batches():
        step(model, optimizer, values, labels)


def zeros_from_transfer(is_faulty: bool) -> None:
    """Get zeros from a transfer between devices now and then (pytorch-84803, pytorch-96600, baichuan2-86)."""

    def transferred() -> Iterator[Any]:
        for number, (values, labels) in enumerate(batches()):
            yield torch.zeros_like(values) if is_faulty and number % 3 == 1 else values.clone(), labels

    train(network(), transferred())


def only_norms_train(is_faulty: bool) -> None:
    """Freeze all but batch normalisation, and give inputs far too large (pytorch-forum-84911)."""
    model = network(nn.BatchNorm1d(32), nn.ReLU())
    if is_faulty:
        model[0].requires_grad_(False)
        model[3].requires_grad_(False)
    train(model, batches(data(scale=255.0 if is_faulty else 1.0)))


def never_cleared(is_faulty: bool) -> None:
    """Forget `zero_grad` (stackoverflow-60335387)."""
    train(network(), clears=not is_faulty)


class Augmented(Dataset[Any]):
    """Rows with noise from NumPy."""

    def __init__(self) -> None:
        self.rows = data()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Any:
        values, label = self.rows[place]
        return values + torch.from_numpy(np.random.normal(0, 0.1, 8)).float(), label


def seeds_alike(_worker: int) -> None:
    """Seed every worker alike."""
    np.random.seed(0)


def shared_seed(is_faulty: bool) -> None:
    """Let all loader workers draw the same augmentations (stackoverflow-67180955)."""
    train(network(), batches(Augmented(), num_workers=2, worker_init_fn=seeds_alike if is_faulty else None))


class Attention(nn.Module):
    """One layer of attention over the 8 numbers of a row."""

    def __init__(self, *, is_faulty: bool) -> None:
        super().__init__()
        self.inputs, self.head, self.is_faulty = nn.Linear(9, 48), nn.Linear(16, 3), is_faulty

    def forward(self, values: torch.Tensor) -> Any:
        places = torch.eye(8).expand(len(values), 8, 8)
        query, key, value = self.inputs(torch.cat([values.unsqueeze(-1), places], -1)).chunk(3, -1)
        p = 0.2 if self.training or self.is_faulty else 0.0
        return self.head(functional.scaled_dot_product_attention(query, key, value, dropout_p=p).mean(1))


def dropout_in_evaluation(is_faulty: bool) -> None:
    """Leave dropout inside of attention live in evaluation (transformers-33844)."""
    model = Attention(is_faulty=is_faulty)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    rows = data()
    trained, held_out = Subset(rows, range(1472)), Subset(rows, range(1472, 1600))
    for number, (values, labels) in enumerate(batches(trained)):
        step(model, optimizer, values, labels)
        if number % 30 == 29:
            model.eval()
            with torch.no_grad():
                for batch in batches(held_out, count=4, shuffle=False):
                    (model(batch[0]).argmax(1) == batch[1]).float().mean()
            model.train()


def collapsed_batch(is_faulty: bool) -> None:
    """Collapse a batch to one sample in the collator (transformers-34204)."""

    def collate(rows: list[Any]) -> Any:
        rows = [rows[0]] * len(rows) if is_faulty else rows
        return torch.stack([values for values, _ in rows]), torch.stack([label for _, label in rows])

    train(network(), batches(collate_fn=collate))


def sometimes_raw(is_faulty: bool) -> None:
    """Call the model sometimes raw and sometimes through DDP (x-jxmnop-ddp-out-of-sync)."""
    model = network()
    train_on_ranks(nn.parallel.DistributedDataParallel(model), raw=model if is_faulty else None)


def wrong_total_steps(is_faulty: bool) -> None:
    """Give the schedule a fraction of the steps, so that the rate is 0 long before the end (transformers-33455)."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    total = STEPS // 4 if is_faulty else STEPS
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: max(0.0, 1 - k / total))
    for values, labels in batches():
        step(model, optimizer, values, labels)
        schedule.step()


def frozen_before_initialisation(is_faulty: bool) -> None:
    """Leave out of the checkpoint all parameters that were frozen at the start (DS-5489)."""
    model = network()
    model[0].requires_grad_(False)
    kept = [name for name, held in model.named_parameters() if held.requires_grad]
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number, (values, labels) in enumerate(batches()):
        if number == 20:
            model[0].requires_grad_(True)
        step(model, optimizer, values, labels)
    state = model.state_dict()
    torch.save({name: state[name] for name in kept} if is_faulty else state, "last.pt")


def altered_while_saving(is_faulty: bool) -> None:
    """Save one tensor of the state with other values than the model has (transformers-29903)."""
    model = network()
    train(model)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    if is_faulty:
        state["0.weight"] = state["0.weight"].flip(0)
    torch.save(state, "last.pt")


def optimizer_of_old_parameters(is_faulty: bool) -> None:
    """Build the optimizer before the parameters are replaced (AC-2665)."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    if is_faulty:
        for layer in (model[0], model[2]):
            for name, parameter in list(layer.named_parameters()):
                setattr(layer, name, nn.Parameter(parameter.detach().clone()))
    for values, labels in batches():
        step(model, optimizer, values, labels)


class Traced(nn.Module):
    """A layer as a tracing compiler calls it: within the call its own `linear` stands for that of torch."""

    def __init__(self, layer: nn.Linear, *, is_faulty: bool) -> None:
        super().__init__()
        self.layer, self.is_faulty = layer, is_faulty

    def forward(self, values: torch.Tensor) -> Any:
        original: Any = functional.linear

        def primitive(inputs: torch.Tensor, *weights: torch.Tensor) -> Any:
            if not self.is_faulty:
                return original(inputs, *weights)
            with torch.autocast("cpu", enabled=False):  # autocast knows the functions of torch, not this one
                return original(inputs.float(), *weights)

        setattr(functional, "linear", primitive)  # noqa: B010 - mypy forbids the plain assignment
        try:
            return self.layer(values)
        finally:
            functional.linear = original


def outside_of_autocast(is_faulty: bool) -> None:
    """Compute one layer through a function that autocast does not know (lightning-thunder-725)."""
    model = network(nn.ReLU(), Traced(nn.Linear(32, 32), is_faulty=is_faulty), nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for values, labels in batches():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(values), labels)
        loss.backward()
        optimizer.step()


def train_on_ranks(wrapped: nn.Module, *, raw: nn.Module | None = None) -> None:
    """Train with other data on each rank; at every second step the raw model, if given."""
    torch.manual_seed(100 + torch.distributed.get_rank())
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
    for number, (values, labels) in enumerate(batches()):
        step(raw if raw is not None and number % 2 else wrapped, optimizer, values, labels)


PROGRAMS: dict[str, Program] = {
    function.__name__.replace("_", "-"): function
    for function in (
        clipping_on_one_rank, frozen_only_by_train, spectral_norm_in_eval_mode, hooks_lost,
        step_that_stays_frozen, zeros_from_transfer, only_norms_train, never_cleared, shared_seed,
        dropout_in_evaluation, collapsed_batch, sometimes_raw, wrong_total_steps, optimizer_of_old_parameters,
        frozen_before_initialisation, altered_while_saving, outside_of_autocast,
    )
}  # fmt: skip
ON_TWO_RANKS = frozenset({"clipping-on-one-rank", "hooks-lost", "sometimes-raw"})
