"""The data: what scikit-learn ships, what Python's own documentation says, and sequences that are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor

Part = tuple[Tensor, Tensor]  # inputs and targets, a row for each example


@dataclass(frozen=True)
class Data:
    """Inputs and targets, in the three usual parts."""

    train: Part
    valid: Part
    test: Part

    def with_inputs(self, change: Callable[[Tensor], Tensor]) -> Data:
        """The same with other inputs, in all parts."""
        return Data(*((change(inputs), targets) for inputs, targets in (self.train, self.valid, self.test)))

    def with_targets(self, change: Callable[[Tensor], Tensor]) -> Data:
        """The same with other targets, in all parts."""
        return Data(*((inputs, change(targets)) for inputs, targets in (self.train, self.valid, self.test)))

    def with_train(self, change: Callable[[Tensor, Tensor], Part]) -> Data:
        """The same with other training data."""
        return replace(self, train=change(*self.train))


def parts(inputs: Tensor, targets: Tensor, seed: int) -> Data:
    """60 % to train on, 20 % to validate on, 20 % to test on, drawn by `seed`."""
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
    train, valid, test = order.tensor_split([len(order) * 6 // 10, len(order) * 8 // 10])
    return Data((inputs[train], targets[train]), (inputs[valid], targets[valid]), (inputs[test], targets[test]))


def standardised(data: Data) -> Data:
    """Inputs with mean 0 and deviation 1 in the training data."""
    mean, deviation = data.train[0].mean(0), data.train[0].std(0).clamp_min(1e-6)
    return data.with_inputs(lambda inputs: (inputs - mean) / deviation)


def standard_targets(data: Data) -> Data:
    """Targets with mean 0 and deviation 1 in the training data."""
    mean, deviation = data.train[1].mean(0), data.train[1].std(0).clamp_min(1e-6)
    return data.with_targets(lambda targets: (targets - mean) / deviation)


def raw_wine(seed: int) -> Data:
    """178 wines, 13 measurements from 0.1 to 1700 as they come, 3 growers."""
    return parts(*_table("wine"), seed)


def raw_breast_cancer(seed: int) -> Data:
    """569 tumours, 30 measurements from 0.001 to 4000 as they come, malignant or not."""
    return parts(*_table("breast_cancer"), seed)


def raw_diabetes(seed: int) -> Data:
    """442 patients, 10 measurements in their own units, how far the disease went after a year: 25 to 346."""
    found = datasets.load_diabetes(scaled=False)
    return parts(_float(found.data), _float(found.target).unsqueeze(1), seed)


def wine(seed: int) -> Data:
    return standardised(raw_wine(seed))


def iris(seed: int) -> Data:
    """150 flowers, 4 measurements, 3 species."""
    return standardised(parts(*_table("iris"), seed))


def breast_cancer(seed: int) -> Data:
    return standardised(raw_breast_cancer(seed))


def breast_cancer_binary(seed: int) -> Data:
    """The same with targets of one column, 0.0 or 1.0."""
    return breast_cancer(seed).with_targets(lambda labels: labels.float().unsqueeze(1))


def diabetes(seed: int) -> Data:
    return standard_targets(standardised(raw_diabetes(seed)))


def linnerud(seed: int) -> Data:
    """20 men, 3 exercises, weight, waist and pulse; repeated with a little noise, for 20 rows are no training set."""
    found = datasets.load_linnerud()
    noise = torch.Generator().manual_seed(seed)
    inputs, targets = _float(found.data).repeat(20, 1), _float(found.target).repeat(20, 1)
    data = standard_targets(standardised(parts(inputs, targets, seed)))
    return data.with_inputs(lambda rows: rows + 0.1 * torch.randn(rows.shape, generator=noise))


def friedman(seed: int) -> Data:
    """1500 rows of Friedman's first function: ten inputs of which five count, not linearly."""
    inputs, targets = datasets.make_friedman1(1500, noise=0.5, random_state=seed)
    return standard_targets(standardised(parts(_float(inputs), _float(targets).unsqueeze(1), seed)))


def moons(seed: int) -> Data:
    """1000 points of two moons that reach into each other."""
    points, labels = datasets.make_moons(1000, noise=0.15, random_state=seed)
    return parts(_float(points), torch.tensor(labels), seed)


def digits(seed: int) -> Data:
    """1797 handwritten digits as 64 numbers from 0 to 1."""
    pixels, labels = _digits()
    return parts(pixels / 16, labels, seed)


def raw_digits(seed: int) -> Data:
    """The same from 0 to 16."""
    return parts(*_digits(), seed)


def digit_images(seed: int) -> Data:
    """The same as images of one channel, 8 by 8."""
    return digits(seed).with_inputs(lambda pixels: pixels.view(-1, 1, 8, 8))


def digit_rows(seed: int) -> Data:
    """The same as sequences of 8 rows of 8 pixels."""
    return digits(seed).with_inputs(lambda pixels: pixels.view(-1, 8, 8))


def reconstruction(source: Callable[[int], Data]) -> Callable[[int], Data]:
    """The inputs of `source`, to be reproduced."""

    def data(seed: int) -> Data:
        found = source(seed)
        return Data(*((inputs, inputs.clone()) for inputs, _ in (found.train, found.valid, found.test)))

    return data


def waves(seed: int, length: int = 24) -> Data:
    """1200 noisy sums of two sines, to be continued by one value."""
    random = np.random.default_rng(seed)
    time = np.arange(length + 1)
    slow, fast = (random.uniform(low, high, (1200, 1)) for low, high in ((0.1, 0.3), (0.5, 0.9)))
    phases = random.uniform(0, 2 * np.pi, (2, 1200, 1))
    values = np.sin(slow * time + phases[0]) + 0.5 * np.sin(fast * time + phases[1])
    values += random.normal(0, 0.05, values.shape)
    return parts(_float(values[:, :-1, None]), _float(values[:, -1:]), seed)


def adding(seed: int, length: int = 12) -> Data:
    """1600 sequences of numbers of which two are marked: what is their sum?"""
    random = np.random.default_rng(seed)
    numbers, marks = random.uniform(-1, 1, (1600, length)), np.zeros((1600, length))
    for row in marks:
        row[random.choice(length, 2, replace=False)] = 1
    return parts(_float(np.stack([numbers, marks], 2)), _float((numbers * marks).sum(1, keepdims=True)), seed)


def brackets(seed: int, length: int = 12) -> Data:
    """1600 sequences of brackets: is each opened before it is closed, all in all?"""
    random = np.random.default_rng(seed)
    rows = np.stack([random.permutation([1] * (length // 2) + [0] * (length // 2)) for _ in range(1600)])
    depth = np.cumsum(2 * rows - 1, 1)
    return parts(torch.tensor(rows), torch.tensor((depth.min(1) >= -1).astype(np.int64)), seed)


def reversal(seed: int, length: int = 6, symbols: int = 8) -> Data:
    """1600 sequences of symbols, to be said backwards."""
    rows = torch.randint(symbols, (1600, length), generator=torch.Generator().manual_seed(seed))
    return parts(rows, rows.flip(1), seed)


def tagging(seed: int, length: int = 16) -> Data:
    """1600 sentences of 4 to 16 words: was this word said before? Padding is word 0 and tag -100."""
    random = np.random.default_rng(seed)
    words, tags = np.zeros((1600, length), np.int64), np.full((1600, length), -100)
    for row, tag in zip(words, tags, strict=True):
        size = random.integers(4, length + 1)
        row[:size] = random.integers(1, 13, size)
        tag[:size] = [int(row[place] in row[:place]) for place in range(size)]
    return parts(torch.tensor(words), torch.tensor(tags), seed)


def characters(seed: int, length: int = 32) -> Data:
    """1800 passages of Python's documentation as numbers of characters, to be continued at each place."""
    codes = _text()
    starts = torch.randint(len(codes) - length - 1, (1800,), generator=torch.Generator().manual_seed(seed))
    rows = codes[starts.unsqueeze(1) + torch.arange(length + 1)]
    return parts(rows[:, :-1], rows[:, 1:], seed)


def documentation() -> Tensor:
    """Some 100,000 characters of Python's documentation as numbers, in order."""
    return _text()


def topic_words(seed: int, length: int = 20) -> Data:
    """Passages of 20 words of Python's documentation: which of four topics is it about?"""
    rows, labels, _ = _topics()
    return parts(rows[:, :length], labels, seed)


TOPICS = ("specialnames", "compound", "types", "formatstrings")
ALPHABET = " abcdefghijklmnopqrstuvwxyz0123456789.,:;()[]'\"_=*/+-<>|\n"
CHARACTERS = len(ALPHABET) + 1  # 0 stands for all others
WORDS = 800


@cache
def _text() -> Tensor:
    known = {character: number + 1 for number, character in enumerate(ALPHABET)}
    text = "".join(topics[topic] for topic in TOPICS).lower()
    return torch.tensor([known.get(character, 0) for character in text])


@cache
def _topics() -> tuple[Tensor, Tensor, dict[str, int]]:
    words = {topic: topics[topic].lower().split() for topic in TOPICS}
    counts: dict[str, int] = {}
    for spoken in words.values():
        for word in spoken:
            counts[word] = counts.get(word, 0) + 1
    common = sorted(counts, key=lambda word: (-counts[word], word))[: WORDS - 1]
    known = {word: number + 1 for number, word in enumerate(common)}
    rows, labels = [], []
    for label, topic in enumerate(TOPICS):
        codes = [known.get(word, 0) for word in words[topic]]
        passages = [codes[place : place + 20] for place in range(0, len(codes) - 20, 10)][:400]
        rows += passages
        labels += [label] * len(passages)
    return torch.tensor(rows), torch.tensor(labels), known


@cache
def _table(name: str) -> tuple[Tensor, Tensor]:
    found: Any = getattr(datasets, f"load_{name}")()
    return _float(found.data), torch.tensor(found.target)


@cache
def _digits() -> tuple[Tensor, Tensor]:
    return _table("digits")


def _float(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def warm() -> None:
    """Loads what is read from files, so that processes forked from here share it."""
    for name in ("digits", "iris", "wine", "breast_cancer"):
        _table(name)
    _text()
    _topics()
