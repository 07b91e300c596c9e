"""The judgement whether numbers are as a common initializer draws them, of any framework: by their moments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_NUMBERS = 1 << 16  # of a weight that are looked at
FEWEST_NUMBERS = 64
_FEWEST_TO_DECIDE = 4096  # numbers from which the shape of a distribution says something, whatever its scale
_TOLERANCE = 0.05  # of the deviation of a uniform distribution, seen from some thousand numbers
_FULL = 0.9  # of the bound that the largest of so many numbers reaches
_SIGMAS = 4.0  # standard errors
_UNIFORM, _NORMAL, _TRUNCATED = 1.8, 3.0, 2.3684  # fourth moment over the squared second; truncated at two deviations
_OF_TRUNCATED = 0.8796  # deviation of a normal distribution that is truncated at two deviations
_SCALES = (0.01, 0.02, 0.1, 1.0)  # deviations that are given as such
_GAINS = (1.0, math.sqrt(2.0), 5 / 3)  # of linear, ReLU and tanh


@dataclass(frozen=True)
class Moments:
    """The moments of the numbers of a weight that are not zero.

    count    of the numbers
    mean, square, fourth  means of the numbers, of their squares and of their fourth powers
    largest  absolute value
    """

    count: int
    mean: float
    square: float
    fourth: float
    largest: float


def is_drawn(found: Moments, shape: Sequence[int]) -> bool:
    """Return True for independent numbers of a uniform or normal distribution, with a scale that initializers use.

    `shape`: of the weight, as PyTorch has it: outputs, inputs, then the places of a convolution.
    """
    if found.count < FEWEST_NUMBERS:
        return False
    largest = found.largest
    deviation, error = math.sqrt(found.square), _SIGMAS / math.sqrt(2 * found.count)  # the deviation's, as a share
    if not 0 < deviation < math.inf or abs(found.mean) > _SIGMAS * deviation / math.sqrt(found.count):
        return False
    if any(_is_uniform(largest, deviation, bound) for bound in _bounds(shape)):
        return True
    if found.count < _FEWEST_TO_DECIDE:
        return False
    form = found.fourth / found.square**2
    if abs(form - _UNIFORM) < 2 * error and _is_uniform(largest, deviation, math.sqrt(3) * deviation, slack=error):
        return True
    drawn = list(_deviations(shape)) if abs(form - _NORMAL) < math.sqrt(48) * error else []
    if abs(form - _TRUNCATED) < 3 * error and largest < 2 / _OF_TRUNCATED * deviation * (1 + error):
        drawn = [share * scale for scale in _deviations(shape) for share in (1.0, _OF_TRUNCATED)]
    return any(abs(deviation - scale) < error * scale for scale in drawn)


def _bounds(shape: Sequence[int]) -> Iterator[float]:
    """Yield the bounds of the frameworks' own layers: the rows of PyTorch's GRU and LSTM belong to several gates."""
    rows, inputs = shape[0], math.prod(shape[1:])
    yield 1 / math.sqrt(inputs)
    for gates in (1, 3, 4):
        yield 1 / math.sqrt(rows / gates)
    places = math.prod(shape[2:])
    yield math.sqrt(6 / (places * (shape[0] + shape[1])))  # Glorot's, Keras's own


def _deviations(shape: Sequence[int]) -> Iterator[float]:
    """Yield the deviations that initializers give a matrix of this shape."""
    rows, columns = shape[:2]
    places = math.prod(shape[2:])
    inputs, outputs = columns * places, rows * places
    yield from _SCALES
    for gain in _GAINS:
        for fan in (inputs, outputs, (inputs + outputs) / 2):
            yield gain / math.sqrt(fan)


def _is_uniform(largest: float, root_mean_square: float, bound: float, *, slack: float = 1e-4) -> bool:
    expected = bound / math.sqrt(3)
    is_within = _FULL * bound < largest <= bound * (1 + slack)
    return is_within and abs(root_mean_square - expected) < _TOLERANCE * expected
