"""General trainers: fastai and Ignite."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "trainers",
    ("fastai", "pytorch-ignite", "torchvision==0.28.0", "scikit-learn"),
    imports=("sklearn.datasets", "fastai.tabular.all", "ignite.engine"),
)
DIGITS = "sklearn's digits"


def _digits() -> tuple[Any, Any]:
    import torch
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images))
    return (torch.tensor(images).float() / 8 - 1)[order], torch.tensor(labels)[order]


def _loaders(*, pixels: bool = False, batch: int = 32) -> tuple[Any, Any]:
    import torch

    images, labels = _digits()
    images = images.reshape(-1, 1, 8, 8) if pixels else images
    data = torch.utils.data.TensorDataset(images, labels)
    train, valid = torch.utils.data.Subset(data, range(1400)), torch.utils.data.Subset(data, range(1400, len(data)))
    return torch.utils.data.DataLoader(train, batch, shuffle=True), torch.utils.data.DataLoader(valid, 128)


def _layers() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


@FAMILY.program("fastai", data=DIGITS)
def fastai_one_cycle(seed: int) -> None:
    """fastai's learner with its one-cycle schedule and its default optimizer."""
    import torch
    from fastai.basics import DataLoaders, Learner

    convolutions = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, 2, 1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, 2, 1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(128, 10),
    )  # fmt: skip
    learner = Learner(DataLoaders(*_loaders(pixels=True)), convolutions, loss_func=torch.nn.CrossEntropyLoss())
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(3, 3e-3)


@FAMILY.program("fastai", data="sklearn's breast cancer")
def fastai_tabular(seed: int) -> None:
    """fastai's tabular learner: fine-tuning with a frozen epoch first."""
    import pandas as pd
    from fastai.tabular.all import (
        Categorify,
        CategoryBlock,
        Normalize,
        TabularDataLoaders,
        tabular_learner,
    )
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer(as_frame=True)
    table = pd.DataFrame(found.frame)
    names = [name for name in table.columns if name != "target"]
    data = TabularDataLoaders.from_df(
        table, procs=[Categorify, Normalize], cont_names=names, y_names="target", y_block=CategoryBlock(), bs=32
    )
    learner = tabular_learner(data, layers=[64, 32])
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(6, 1e-2)


@FAMILY.program("pytorch-ignite", data=DIGITS)
def ignite_supervised(seed: int) -> None:
    """Ignite's supervised trainer with an evaluator after each epoch."""
    import torch
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    model, loss = _layers(), torch.nn.CrossEntropyLoss()
    train, valid = _loaders()
    trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8), loss)
    evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "loss": Loss(loss)})
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(valid))
    trainer.run(train, max_epochs=4)


@FAMILY.program("pytorch-ignite", data=DIGITS)
def ignite_accumulated(seed: int) -> None:
    """Ignite's supervised trainer with accumulation over four batches and a piecewise linear rate."""
    import torch
    from ignite.engine import Events, create_supervised_trainer
    from ignite.handlers import PiecewiseLinear

    model = _layers()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    trainer = create_supervised_trainer(model, optimizer, torch.nn.CrossEntropyLoss(), gradient_accumulation_steps=4)
    rate = PiecewiseLinear(optimizer, "lr", milestones_values=[(0, 1e-4), (60, 5e-3), (300, 0.0)])
    trainer.add_event_handler(Events.ITERATION_STARTED, rate)
    trainer.run(_loaders(batch=16)[0], max_epochs=5)
