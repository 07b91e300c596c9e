"""Batches that come again: data loaders of every kind, with the data in turn and with the usual mistakes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from trackside.contracts.observations import SHARED_RANDOMNESS
from trackside.contracts.run.recorded_names import BATCH, BATCH_OF_ONE_ROW, BATCH_REPEATED, EPOCH, ROWS_REPEATED
from trackside.frameworks.pytorch.data.batches import LOOKS_AT_FIRST, MOST_REMEMBERED
from trackside.frameworks.pytorch.data.fingerprint import fingerprint
from trackside.rules.data.repeated_data import RepeatedData
from trackside.trial.trial import Trial

torch.set_num_threads(1)
STEPS = 24
Batches = Iterable[Any]


def rows(count: int = 256) -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(count, 6, generator=generator), torch.randn(count, 1, generator=generator))


def train(batches: Batches, *, steps: int = STEPS) -> None:
    torch.manual_seed(0)
    net = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _, (values, targets) in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        functional.mse_loss(net(values), targets).backward()
        optimizer.step()


def epochs(loader: DataLoader[Any]) -> Batches:
    while True:
        yield from loader


class Stream(IterableDataset[Any]):
    """Rows without a length, divided among the workers or not."""

    def __init__(self, *, divides: bool) -> None:
        self.divides = divides

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        source = rows()
        for place in range(len(source)):
            if not self.divides or worker is None or place // 8 % worker.num_workers == worker.id:
                yield source[place]


class Noise(Dataset[Any]):
    """Samples drawn from a generator of its own, which each worker copies."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return 256

    def __getitem__(self, place: int) -> Any:
        return torch.from_numpy(self.rng.normal(size=6)).float(), torch.zeros(1)


class Named(Dataset[Any]):
    """Rows with letters in place of numbers."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, name: str) -> Any:
        return torch.randn(6), torch.tensor([float(ord(name))])


def drawn(of: int, count: int) -> list[int]:
    """Return numbers of the first rows, drawn by chance."""
    return torch.randint(of, (count,), generator=torch.Generator().manual_seed(5)).tolist()


def first_sample_only(samples: list[Any]) -> Any:
    values, target = samples[0]
    return values.repeat(len(samples), 1), target.repeat(len(samples), 1)


def first_batch_each_time() -> Batches:
    loader = DataLoader(rows(), batch_size=8)
    while True:
        yield next(iter(loader))


def shuffled_first_batch_each_time() -> Batches:
    loader = DataLoader(rows(), batch_size=8, shuffle=True)
    while True:
        yield next(iter(loader))


def counted(loader: DataLoader[Any]) -> Batches:
    """Epochs of a loop that knows the number of batches, as Lightning's does, and never asks for one more."""
    while True:
        iterator = iter(loader)
        for _ in range(len(loader)):
            yield next(iterator)


def with_evaluations() -> Batches:
    """A batch for monitoring is fetched before each step, without gradients."""
    loader, monitored = DataLoader(rows(), batch_size=8, shuffle=True), DataLoader(rows(64), batch_size=8)
    for batch in loader:
        with torch.no_grad():
            next(iter(monitored))
        yield batch


REPEATED = [
    pytest.param(first_batch_each_time, BATCH_REPEATED, id="a new iterator for each batch"),
    pytest.param(
        lambda: DataLoader(Stream(divides=False), batch_size=8, num_workers=2), BATCH_REPEATED, id="an undivided stream"
    ),
    pytest.param(lambda: DataLoader(Noise(), batch_size=8, num_workers=2), BATCH_REPEATED, id="a copied generator"),
    pytest.param(
        lambda: DataLoader(rows(), batch_size=8, collate_fn=first_sample_only), BATCH_OF_ONE_ROW, id="one sample"
    ),
    pytest.param(
        lambda: epochs(DataLoader(rows(), batch_size=8, sampler=drawn(8, 48))), ROWS_REPEATED, id="eight rows"
    ),
    pytest.param(
        lambda: epochs(DataLoader(rows(), batch_size=8, sampler=np.array(drawn(8, 48)), num_workers=2)),
        ROWS_REPEATED,
        id="eight rows, by workers",
    ),
    pytest.param(lambda: counted(DataLoader(rows(), 8, sampler=drawn(8, 48))), ROWS_REPEATED, id="counted batches"),
    pytest.param(
        lambda: counted(DataLoader(rows(), 8, sampler=drawn(8, 48), num_workers=2)),
        ROWS_REPEATED,
        id="counted batches of workers",
    ),
    pytest.param(lambda: DataLoader(rows(1024), batch_size=32, sampler=drawn(9, 4096)), ROWS_REPEATED, id="one pass"),
]
IN_TURN = [
    pytest.param(
        lambda: DataLoader(rows(1024), 16, sampler=[k // 4 % 64 for k in range(1024)]), id="four answers to each prompt"
    ),
    pytest.param(
        lambda: DataLoader(rows(1024), 16, sampler=[k // 128 * 4 + k % 16 // 4 for k in range(1024)]),
        id="answers that are trained on eight times",
    ),
    pytest.param(lambda: epochs(DataLoader(rows(), batch_size=8, shuffle=True)), id="shuffled"),
    pytest.param(lambda: epochs(DataLoader(rows(64), batch_size=8)), id="in order, three epochs"),
    pytest.param(lambda: counted(DataLoader(rows(), batch_size=8, shuffle=True)), id="counted batches, shuffled"),
    pytest.param(lambda: epochs(DataLoader(rows(8), batch_size=8)), id="the whole data set as one batch"),
    pytest.param(lambda: epochs(DataLoader(rows(24), batch_size=8)), id="three batches"),
    pytest.param(lambda: DataLoader(rows(), batch_size=1), id="single rows"),
    pytest.param(
        lambda: DataLoader(rows(64), batch_size=2, sampler=WeightedRandomSampler([1.0] * 64, 256)),
        id="drawn with replacement",
    ),
    pytest.param(lambda: DataLoader(Stream(divides=True), batch_size=8, num_workers=2), id="a divided stream"),
    pytest.param(lambda: epochs(DataLoader(Stream(divides=False), batch_size=8)), id="a stream without workers"),
    pytest.param(lambda: DataLoader(rows(), batch_size=8, num_workers=2), id="two workers"),
    pytest.param(
        lambda: epochs(DataLoader(rows(), batch_size=8, sampler=SubsetRandomSampler(range(16)))), id="a small subset"
    ),
    pytest.param(
        lambda: epochs(DataLoader(rows(16), batch_size=8, sampler=drawn(16, 240))), id="little data, for long"
    ),
    pytest.param(
        lambda: epochs(DataLoader(rows(64), 8, sampler=WeightedRandomSampler([1.0] * 30 + [0.0] * 34, 64))),
        id="weights that leave out half",
    ),
    pytest.param(
        lambda: epochs(DataLoader(rows(64), 8, sampler=WeightedRandomSampler([9.0] * 6 + [1.0] * 58, 64))),
        id="weights that prefer a few",
    ),
    pytest.param(lambda: epochs(DataLoader(Named(), 8, sampler=list("abcdefgh") * 4)), id="rows with names"),
    pytest.param(shuffled_first_batch_each_time, id="a new shuffled iterator for each batch"),
    pytest.param(with_evaluations, id="a batch for monitoring before each step"),
]


def judged(capturing: Any, batches: Callable[[], Batches]) -> tuple[list[str], Trial]:
    with capturing(losses=100) as store, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside the writer's thread
        train(batches())
    trial = Trial(store, store)
    trial.refresh()
    window = trial.window(STEPS - 1, now=0.0, newest_step_at=0.0)
    return [finding.subject for finding in RepeatedData().check(window)], trial


@pytest.mark.parametrize(("batches", "subject"), REPEATED)
def test_repeated_data_are_found(capturing: Any, batches: Callable[[], Batches], subject: str) -> None:
    assert subject in judged(capturing, batches)[0]


@pytest.mark.parametrize("batches", IN_TURN)
def test_data_in_turn_are_silent(capturing: Any, batches: Callable[[], Batches]) -> None:
    assert judged(capturing, batches)[0] == []


def test_inputs_that_are_all_equal_are_found(capturing: Any) -> None:
    def batches() -> Batches:
        return DataLoader(TensorDataset(torch.ones(256, 6), torch.arange(256.0)[:, None]), batch_size=8)

    assert judged(capturing, batches)[0] == [BATCH_OF_ONE_ROW]


def test_a_copied_generator_is_a_fact(capturing: Any) -> None:
    _, trial = judged(capturing, lambda: DataLoader(Noise(), batch_size=8, num_workers=2))
    facts = trial.facts_at(STEPS)
    assert facts is not None
    assert SHARED_RANDOMNESS.of(facts.program) == "Noise.rng"


def test_looks_become_rare(capturing: Any) -> None:
    with capturing(losses=10_000) as store:
        train(epochs(DataLoader(rows(2048), batch_size=4)), steps=LOOKS_AT_FIRST + 100)
    trial = Trial(store, store)
    trial.refresh()
    (column,) = trial.columns(BATCH, "mean", last_step=10_000, mode="TRAIN")
    assert column.steps.tolist() == list(range(LOOKS_AT_FIRST))
    assert MOST_REMEMBERED > LOOKS_AT_FIRST


def changed(tensor: torch.Tensor) -> torch.Tensor:
    other = tensor.clone()
    other.view(-1)[0] += 1
    return other


BATCH_KINDS = [
    pytest.param(torch.randn(8, 6), id="numbers"),
    pytest.param(torch.randint(0, 9, (8, 6)), id="tokens"),
    pytest.param(torch.randn(8, 6).bfloat16(), id="half precision"),
    pytest.param((torch.randn(8, 3, 5, 5), torch.arange(8)), id="images and labels"),
    pytest.param({"input_ids": torch.randint(0, 9, (4, 7)), "mask": torch.ones(4, 7).bool()}, id="a mapping"),
    pytest.param([torch.randn(6, 8).T], id="not contiguous"),
]


@pytest.mark.parametrize("batch", BATCH_KINDS)
def test_equal_batches_have_equal_fingerprints(batch: Any) -> None:
    def copied(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.clone()
        if isinstance(value, dict):
            return {name: copied(part) for name, part in value.items()}
        return type(value)(copied(part) for part in value)

    found = fingerprint(batch)
    assert found is not None
    assert found == fingerprint(copied(batch))
    assert not found.is_one_row
    assert 0 <= found.number < 2**24


def test_other_batches_have_other_fingerprints() -> None:
    images = torch.zeros(64, 1, 28, 28)
    images[:, :, 8:20, 8:20] = torch.rand(64, 1, 12, 12)
    found = {print_.number for k in range(200) if (print_ := fingerprint(images.roll(k, 0) * (1 + k))) is not None}
    assert len(found) == 200


@pytest.mark.parametrize(
    "batch",
    [None, "text", torch.tensor(3.0), torch.ones(2, 2), torch.empty(0, 4), object()],
    ids=["nothing", "text", "number", "two rows", "no rows", "object"],
)
def test_a_batch_of_too_little_has_no_fingerprint(batch: Any) -> None:
    assert fingerprint(batch) is None


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_and_random_numbers_are_the_same_with_and_without_capture(capturing: Any, workers: int) -> None:
    def outcome() -> list[torch.Tensor]:
        torch.manual_seed(5)
        seen = [batch[0] for batch in DataLoader(rows(64), batch_size=8, shuffle=True, num_workers=workers)]
        return [*seen, torch.get_rng_state()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside the writer's thread
        bare = outcome()
        with capturing(losses=100):
            captured = outcome()
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(captured, bare, strict=True))


def test_the_next_model_begins_with_the_first_pass_over_its_data(capturing: Any) -> None:
    """Its first batch comes while the newest call of a model was the evaluation of the model before."""
    with capturing() as store:
        kept = []
        for _ in range(2):
            net, data = nn.Linear(6, 1), DataLoader(rows(64), batch_size=8)
            kept.append((net, data))
            optimizer = torch.optim.SGD(net.parameters(), 0.01)
            for values, targets in data:
                optimizer.zero_grad()
                functional.mse_loss(net(values), targets).backward()
                optimizer.step()
            net.eval()
            with torch.no_grad():
                net(torch.ones(4, 6))
    trial = Trial(store, store)
    trial.refresh()
    (epoch,) = trial.columns(EPOCH, "mean", last_step=trial.recorded_through, mode="TRAIN")
    assert set(epoch.values.tolist()) == {0.0}
