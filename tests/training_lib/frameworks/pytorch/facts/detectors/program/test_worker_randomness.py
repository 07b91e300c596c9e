"""Random generators that all workers copy: found in the program, never by running it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset

from trackside.frameworks.pytorch.facts.detectors.program.worker_randomness import shared_randomness


class OfImages(Dataset[Any]):
    """A data set with a generator, and transformations."""

    def __init__(self, transform: Any = None) -> None:
        self.transform = transform
        self.seed = 0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> Any:
        return self.transform(place) if self.transform else place


class Drawn(OfImages):
    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)

    def __getitem__(self, place: int) -> Any:
        return self.rng.normal(size=3)


class DrawnByAMethod(Drawn):
    def __getitem__(self, place: int) -> Any:
        return self._crop(place)

    def _crop(self, place: int) -> Any:
        return place + self.rng.integers(4)


class OldDrawn(OfImages):
    def __init__(self) -> None:
        super().__init__()
        self.random = random.Random(0)

    def __getitem__(self, place: int) -> Any:
        return self.random.random()


class Flip:
    """A transformation with a generator of torch."""

    def __init__(self) -> None:
        self.generator = torch.Generator()

    def __call__(self, value: Any) -> Any:
        return value if torch.rand(1, generator=self.generator) > 0.5 else -value


class Chain:
    """Several transformations."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class SplitAtFirst(Drawn):
    """Draws only when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.order = self.rng.permutation(8)

    def __getitem__(self, place: int) -> Any:
        return self.order[place]


class DiffersByWorker(IterableDataset[Any]):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            self.rng = np.random.default_rng(worker.seed)
        yield self.rng.normal()


class GlobalFlip:
    """Draws from torch's own generator, which each worker seeds otherwise."""

    def __call__(self, value: Any) -> Any:
        return value if torch.rand(1) > 0.5 else -value


def seeds_alike(worker: int) -> None:
    np.random.seed(0)


def seeds_all_alike(worker: int) -> None:
    random.seed(7)
    torch.manual_seed(7)


def seeds_by_worker(worker: int) -> None:
    np.random.seed(100 + worker)


def seeds_by_torch(_worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


def sets_threads(_worker: int) -> None:
    torch.set_num_threads(1)


def seeds_by_process(_worker: int) -> None:
    random.seed(os.getpid())


SHARED = [
    pytest.param(Drawn(), None, "Drawn.rng", id="a generator of NumPy"),
    pytest.param(DrawnByAMethod(), None, "DrawnByAMethod.rng", id="drawn by a method of its own"),
    pytest.param(OldDrawn(), None, "OldDrawn.random", id="a generator of Python"),
    pytest.param(OfImages(Flip()), None, "Flip.generator", id="in a transformation"),
    pytest.param(OfImages(Chain(GlobalFlip(), Flip())), None, "Flip.generator", id="in one of several"),
    pytest.param(Subset(Drawn(), [0, 1]), None, "Drawn.rng", id="in a part of a data set"),
    pytest.param(ConcatDataset([OfImages(), Drawn()]), None, "Drawn.rng", id="in a joined data set"),
    pytest.param(OfImages(), seeds_alike, "worker_init_fn", id="workers seeded alike"),
    pytest.param(OfImages(), seeds_all_alike, "worker_init_fn", id="workers seeded alike, Python and torch"),
]
DIFFERENT = [
    pytest.param(OfImages(), None, id="no generator"),
    pytest.param(OfImages(GlobalFlip()), None, id="torch's own generator"),
    pytest.param(SplitAtFirst(), None, id="drawn only at first"),
    pytest.param(DiffersByWorker(), None, id="told apart by itself"),
    pytest.param(Drawn(), seeds_by_worker, id="a function that may seed the generator"),
    pytest.param(OfImages(), seeds_by_worker, id="seeded by the number of the worker"),
    pytest.param(OfImages(), seeds_by_torch, id="seeded by torch"),
    pytest.param(OfImages(), seeds_by_process, id="seeded by the process"),
    pytest.param(OfImages(), sets_threads, id="a function that seeds nothing"),
    pytest.param(OfImages(), seeds_alike.__call__, id="no plain function"),
    pytest.param([1, 2, 3], None, id="a list"),
    pytest.param(None, None, id="nothing"),
]


@pytest.mark.parametrize(("dataset", "worker_init", "name"), SHARED)
def test_copied_generators_are_named(dataset: Any, worker_init: Callable[..., object] | None, name: str) -> None:
    assert shared_randomness(dataset, worker_init) == name


@pytest.mark.parametrize(("dataset", "worker_init"), DIFFERENT)
def test_workers_that_draw_apart_are_silent(dataset: Any, worker_init: Callable[..., object] | None) -> None:
    assert shared_randomness(dataset, worker_init) == ""


def test_nothing_is_drawn() -> None:
    dataset = Drawn()
    before = dataset.rng.bit_generator.state
    shared_randomness(dataset, None)
    assert dataset.rng.bit_generator.state == before
