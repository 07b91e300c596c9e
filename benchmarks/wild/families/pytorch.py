"""PyTorch's own parts beyond a plain loop. These also run among the tests, which need no other library."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family("pytorch", ("scikit-learn",), imports=("sklearn.datasets",))
DIGITS = "sklearn's digits"


def _digits(batch: int = 32) -> tuple[Any, Any]:
    """Return batches for training, and one batch for evaluation."""
    import torch
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images).float() / 8 - 1, torch.tensor(labels)
    order = torch.randperm(len(images))
    data = torch.utils.data.TensorDataset(images[order[:1400]], labels[order[:1400]])
    rest = images[order[1400:]], labels[order[1400:]]
    return torch.utils.data.DataLoader(data, batch, shuffle=True), rest


def _layers() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def _evaluate(model: Any, rest: Any) -> None:
    import torch

    model.eval()
    with torch.no_grad():
        torch.nn.functional.cross_entropy(model(rest[0]), rest[1])
    model.train()


@FAMILY.program("torch", data=DIGITS)
def torch_averaged_weights(seed: int) -> None:
    """Stochastic weight averaging with its own schedule and an update of batch norms, as its documentation shows."""
    import torch
    from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

    train, rest = _digits()
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cosine, later = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6), SWALR(optimizer, swa_lr=0.05)
    for epoch in range(6):
        for inputs, targets in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        if epoch > 3:
            average.update_parameters(model)
            later.step()
        else:
            cosine.step()
        _evaluate(model, rest)
    update_bn(train, average)
    _evaluate(average, rest)


@FAMILY.program("torch", data=DIGITS)
def torch_parametrized(seed: int) -> None:
    """Weights under spectral and weight normalisation, with Nesterov momentum and a one-cycle rate."""
    import torch
    from torch.nn.utils import parametrizations

    train, rest = _digits()
    model = _layers()
    parametrizations.spectral_norm(model[0])
    parametrizations.weight_norm(model[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=176)
    for _ in range(4):
        for inputs, targets in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            schedule.step()
        _evaluate(model, rest)


@FAMILY.program("torch", data=DIGITS)
def torch_line_search(seed: int) -> None:
    """L-BFGS with a line search on all data in one batch: many losses for one step."""
    import torch

    train, _ = _digits(1400)
    inputs, targets = next(iter(train))
    model = _layers()
    optimizer = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe", max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(30):
        optimizer.step(closure)


@FAMILY.program("torch", data="text of Python's own documentation")
def torch_transformer(seed: int) -> None:
    """`torch.nn.Transformer` learns to turn words round, with a warm-up and clipping."""
    from pydoc_data import topics

    import torch

    letters = "".join(topics.topics[name] for name in sorted(topics.topics)).encode("ascii", "ignore")
    rows = torch.tensor(list(letters[: 960 * 8])).reshape(960, 8) % 64
    embed, model = torch.nn.Embedding(66, 32), torch.nn.Transformer(32, 2, 1, 1, 64, batch_first=True)
    head = torch.nn.Linear(32, 66)
    parameters = [*embed.parameters(), *model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(8)
    place = torch.nn.Parameter(torch.randn(8, 32) * 0.1, requires_grad=False)
    for _ in range(4):
        for batch in torch.utils.data.DataLoader(rows, 16, shuffle=True):
            wanted = batch.flip(1)
            given = torch.cat([torch.full((len(batch), 1), 65), wanted[:, :-1]], 1)
            optimizer.zero_grad()
            found = head(model(embed(batch) + place, embed(given) + place, tgt_mask=mask))
            torch.nn.functional.cross_entropy(found.flatten(0, 1), wanted.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
