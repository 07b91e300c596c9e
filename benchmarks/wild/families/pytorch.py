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


# What follows is odd and right: each is a kind of program that a rule could take for a mistake.


def _train(model: Any, train: Any, optimizer: Any, *, epochs: int) -> None:
    import torch

    for _ in range(epochs):
        for inputs, targets in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


@FAMILY.program("torch", data=DIGITS)
def torch_gradients_asked_for(seed: int) -> None:
    """After a first training by `backward`, a second takes its gradients from `torch.autograd.grad`."""
    import torch

    train, rest = _digits()
    model = _layers()
    _train(model, train, torch.optim.SGD(model.parameters(), lr=0.1), epochs=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(4):
        for inputs, targets in train:
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            parameters = list(model.parameters())
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
            optimizer.step()
        _evaluate(model, rest)


@FAMILY.program("torch", data=DIGITS)
def torch_gradients_added_up_by_hand(seed: int) -> None:
    """Gradients of each half of a batch are written into `grad` as they are, beside a reward model by `backward`."""
    import torch

    train, _ = _digits()
    model, judge = _layers(), torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.01)
    for epoch in range(5):
        for inputs, targets in train:
            if epoch == 0:
                of_judge.zero_grad()
                torch.nn.functional.mse_loss(judge(inputs)[:, 0], targets / 10).backward()
                of_judge.step()
            parameters = list(model.parameters())
            halves = [
                torch.autograd.grad(torch.nn.functional.cross_entropy(model(part), wanted), parameters)
                for part, wanted in zip(inputs.chunk(2), targets.chunk(2), strict=True)
            ]
            for parameter, first, second in zip(parameters, *halves, strict=True):
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.copy_((first + second) / 2)
            optimizer.step()


@FAMILY.program("torch", data=DIGITS)
def torch_evolution_beside_a_critic(seed: int) -> None:
    """An evolution strategy writes a policy's gradients by hand, while a critic learns by `backward`."""
    import torch

    train, _ = _digits()
    policy, critic = torch.nn.Linear(64, 10, bias=False), torch.nn.Linear(64, 1)
    steps, of_critic = torch.optim.Adam(policy.parameters(), lr=0.02), torch.optim.Adam(critic.parameters(), lr=0.01)
    for number, (inputs, targets) in zip(range(400), (each for _ in range(12) for each in train), strict=False):
        if number % 4 == 0:
            of_critic.zero_grad()
            torch.nn.functional.mse_loss(critic(inputs)[:, 0], targets / 10).backward()
            of_critic.step()
        with torch.no_grad():
            found = torch.zeros_like(policy.weight)
            for _ in range(8):
                noise = 0.05 * torch.randn_like(policy.weight)
                losses = [
                    torch.nn.functional.cross_entropy(inputs @ (policy.weight + sign * noise).T, targets)
                    for sign in (1, -1)
                ]
                found += (losses[0] - losses[1]) * noise / (8 * 2 * 0.05**2)
        policy.weight.grad = found
        steps.step()


@FAMILY.program("torch", data=DIGITS)
def torch_steps_in_backward(seed: int) -> None:
    """Each parameter has an optimizer that steps within the backward pass, as PyTorch's tutorial on memory does."""
    import torch

    train, rest = _digits()
    model = _layers()
    optimizers = {each: torch.optim.Adam([each], lr=1e-3, foreach=False) for each in model.parameters()}

    def step(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(5):
        for inputs, targets in train:
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        _evaluate(model, rest)


@FAMILY.program("torch", data=DIGITS)
def torch_placeholder_optimizer(seed: int) -> None:
    """The same, with an optimizer of one number for the schedule and the trainer, as layer-wise optimizers have it."""
    import torch

    train, rest = _digits()
    model = _layers()
    optimizers = {each: torch.optim.SGD([each], lr=0.05, foreach=False) for each in model.parameters()}

    def step(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    placeholder = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(placeholder, T_max=220)
    for _ in range(5):
        for inputs, targets in train:
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            placeholder.step()
            schedule.step()
            placeholder.zero_grad()
        _evaluate(model, rest)


@FAMILY.program("torch", data=DIGITS)
def torch_two_tasks_in_turn(seed: int) -> None:
    """Batches of two tasks take turns; the optimizer of each task's model steps after every batch."""
    import torch

    train, _ = _digits()
    digit, parity = _layers(), torch.nn.Linear(64, 2)
    optimizers = [torch.optim.SGD(digit.parameters(), lr=0.1), torch.optim.SGD(parity.parameters(), lr=0.1)]
    for _ in range(5):
        for number, (inputs, targets) in enumerate(train):
            for optimizer in optimizers:
                optimizer.zero_grad()
            found, wanted = (digit(inputs), targets) if number % 2 else (parity(inputs), targets % 2)
            torch.nn.functional.cross_entropy(found, wanted).backward()
            for optimizer in optimizers:
                optimizer.step()


@FAMILY.program("torch", data=DIGITS)
def torch_one_task_after_the_other(seed: int) -> None:
    """A body and three heads in one optimizer; the data of each task come when those before are learned."""
    import torch

    train, rest = _digits()
    body = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    heads = torch.nn.ModuleList([torch.nn.Linear(64, 10) for _ in range(3)])
    optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.05)
    for task, head in enumerate(heads):
        model = torch.nn.Sequential(body, head)
        for _ in range(6):
            for inputs, targets in train:
                optimizer.zero_grad()
                turned = inputs.roll(task * 16, 1)
                torch.nn.functional.cross_entropy(model(turned), targets).backward()
                optimizer.step()
            _evaluate(model, (rest[0].roll(task * 16, 1), rest[1]))


@FAMILY.program("torch", data=DIGITS)
def torch_head_without_use(seed: int) -> None:
    """A model computes a second output with a layer of its own, as a pooler, and the loss takes the first alone."""
    import torch

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.pooler, self.head = _layers()[:2], torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)

        def forward(self, inputs: Any) -> Any:
            found = self.body(inputs)
            return self.head(found), torch.tanh(self.pooler(found))

    train, rest = _digits()
    model = Two()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(6):
        for inputs, targets in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs)[0], targets).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            torch.nn.functional.cross_entropy(model(rest[0])[0], rest[1])
        model.train()


@FAMILY.program("torch", data=DIGITS)
def torch_part_never_called(seed: int) -> None:
    """A model keeps a decoder for later, which this training never calls."""
    import torch

    train, rest = _digits()
    model = _layers()
    whole = torch.nn.ModuleDict({"model": model, "decoder": torch.nn.Linear(10, 64)})
    optimizer = torch.optim.AdamW(whole.parameters(), lr=1e-3)
    for _ in range(6):
        _train(model, train, optimizer, epochs=1)
        _evaluate(model, rest)


@FAMILY.program("torch", data=DIGITS)
def torch_pairs_with_larger_evaluation(seed: int) -> None:
    """Contrastive learning of two views: others of the batch are the wrong answers, of which an evaluation has more."""
    import torch

    train, rest = _digits(16)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss(images: Any) -> Any:
        views = [torch.nn.functional.normalize(model(images + 0.3 * torch.randn_like(images))) for _ in range(2)]
        return torch.nn.functional.cross_entropy(views[0] @ views[1].T / 0.1, torch.arange(len(images)))

    for _ in range(12):
        for inputs, _targets in train:
            optimizer.zero_grad()
            loss(inputs).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            loss(rest[0])
        model.train()


@FAMILY.program("torch", data="sklearn's diabetes")
def torch_order_of_risks(seed: int) -> None:
    """A partial likelihood compares each person with all of the batch, and an evaluation is one large batch."""
    import torch
    from sklearn.datasets import load_diabetes

    inputs, times = load_diabetes(return_X_y=True)
    inputs, times = torch.tensor(inputs).float() * 20, torch.tensor(times)
    order = torch.randperm(len(inputs))
    data = torch.utils.data.TensorDataset(inputs[order[:192]], times[order[:192]])
    model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)

    def loss(given: Any, ends: Any) -> Any:
        risks = model(given)[ends.argsort(descending=True), 0]
        return (risks.logcumsumexp(0) - risks).mean()

    for _ in range(40):
        for given, ends in torch.utils.data.DataLoader(data, 16, shuffle=True):
            optimizer.zero_grad()
            loss(given, ends).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            loss(inputs[order[192:]], times[order[192:]])
        model.train()


@FAMILY.program("torch", data="sklearn's wine")
def torch_few_rows(seed: int) -> None:
    """Sixty wines are learned to a loss of nearly zero, and the others are named rightly as well."""
    import torch
    from sklearn.datasets import load_wine
    from sklearn.preprocessing import StandardScaler

    inputs, targets = load_wine(return_X_y=True)
    inputs, targets = torch.tensor(StandardScaler().fit_transform(inputs)).float(), torch.tensor(targets)
    order = torch.randperm(len(inputs))
    data = torch.utils.data.TensorDataset(inputs[order[:60]], targets[order[:60]])
    model = torch.nn.Sequential(torch.nn.Linear(13, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(40):
        _train(model, torch.utils.data.DataLoader(data, 10, shuffle=True), optimizer, epochs=1)
        _evaluate(model, (inputs[order[60:]], targets[order[60:]]))


@FAMILY.program("torch", data=DIGITS)
def torch_mixed_rows(seed: int) -> None:
    """Training rows are mixed two by two with smoothed labels, and an evaluation has plain ones."""
    import torch

    train, rest = _digits()
    model = _layers()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(10):
        for inputs, targets in train:
            share = float(torch.distributions.Beta(0.4, 0.4).sample())
            wanted = torch.nn.functional.one_hot(targets, 10).float()
            optimizer.zero_grad()
            found = model(share * inputs + (1 - share) * inputs.flip(0))
            mixed = share * wanted + (1 - share) * wanted.flip(0)
            torch.nn.functional.cross_entropy(found, mixed, label_smoothing=0.1).backward()
            optimizer.step()
        _evaluate(model, rest)
