"""Expressions over statistics of tensors: `l2 / max_norm`, `log10(mean)`, `"gradient/fc.weight" / "fc.weight"`.

    sum      = product {("+" | "-") product}
    product  = signed {("*" | "/") signed}
    signed   = "-" signed | power
    power    = value ["^" signed]
    value    = number | statistic ["(" tensor ")"] | tensor | function "(" sum ["," number] ")" | "(" sum ")"

A tensor stands in quotes. The text comes from a browser: it is parsed here, and nothing of it is ever run as a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean

MOST_LETTERS = 500
MOST_DEPTH = 40  # of brackets and signs: far below what Python's own stack bears
MOST_READ = 8  # statistics of one expression
WORKS = 'What works: l2 / std, log10(l2), moving_mean(l2, 20), "gradient/fc.weight" / "fc.weight", mean("fc.weight").'

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers over steps. `steps` ascend, int64 of shape (n,); `values` are float64 of shape (n,), finite or not."""

    steps: NDArray[np.int64]
    values: Values


@dataclass(frozen=True)
class Read:
    """A statistic of a tensor. `tensor`: "" for that of the page; `statistic`: "" for its usual one."""

    statistic: str
    tensor: str


@dataclass(frozen=True)
class _Number:
    value: float


@dataclass(frozen=True)
class _Call:
    function: str
    argument: Node
    width: int = 0


@dataclass(frozen=True)
class _Pair:
    sign: str
    left: Node
    right: Node


Node = Read | _Number | _Call | _Pair

_SIMPLE: Mapping[str, Callable[[Values], Values]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "sqrt": np.sqrt,
}
_MOVING = "moving_mean"
_CHANGE = "change"  # from the number before
FUNCTIONS = (*_SIMPLE, _MOVING, _CHANGE)
_SIGNS: Mapping[str, Callable[[Values, Values], Values]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "^": np.power,
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<tensor>"[^"]*"|'[^']*')|(?P<sign>\*\*|[-+*/^(),]))""",
    re.ASCII,
)


@dataclass(frozen=True)
class Expression:
    """An expression that was understood. `reads` are its statistics, each once, in the order of the text."""

    text: str
    root: Node
    reads: tuple[Read, ...]

    @classmethod
    def parse(cls, text: str, *, statistics: Iterable[str]) -> Expression:
        """Return the expression in a text.

        Args:
            text: The text.
            statistics: Names of statistics.

        Raises:
            ConfigurationError: It is none. The message names the character, what stands there, and what works.
        """
        parser = _Parser(text, frozenset(statistics))
        root = parser.whole()
        reads = tuple(dict.fromkeys(_reads_of(root)))
        if not reads:
            raise parser.problem(0, "No statistic stands in it, so it is the same at every step.")
        if len(reads) > MOST_READ:
            raise parser.problem(0, f"{len(reads)} statistics stand in it; at most {MOST_READ} are read.")
        return cls(text, root, reads)

    def numbers(self, known: Mapping[Read, Numbers]) -> Numbers:
        """Return the numbers of the expression at the steps that all its statistics have.

        A step at which it has no value, such as one divided by zero, has a number that is not finite.

        Args:
            known: The numbers of each of `reads`.
        """
        steps = reduce(_shared, (known[read].steps for read in self.reads))
        columns = {read: known[read] for read in self.reads}
        at = {
            read: some.values if len(some.steps) == len(steps) else some.values[np.searchsorted(some.steps, steps)]
            for read, some in columns.items()
        }
        with np.errstate(all="ignore"):
            return Numbers(steps, np.broadcast_to(_value(self.root, at), steps.shape).astype(np.float64))


def _shared(some: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the steps that both have. Most often they are the same, and then nothing is copied."""
    return some if np.array_equal(some, more) else np.intersect1d(some, more)


def _value(node: Node, at: Mapping[Read, Values]) -> Values:
    if isinstance(node, Read):
        return at[node]
    if isinstance(node, _Number):
        return np.asarray(node.value)
    if isinstance(node, _Pair):
        return _SIGNS[node.sign](_value(node.left, at), _value(node.right, at))
    values = np.atleast_1d(_value(node.argument, at))
    if node.function == _MOVING:
        return _moving_mean(values, node.width)
    if node.function == _CHANGE:
        return np.diff(values, prepend=np.nan)[: len(values)]
    return _SIMPLE[node.function](values)


def _moving_mean(values: Values, width: int) -> Values:
    """Return the mean of the last `width` finite numbers at each place: of fewer at the beginning, NaN without any."""
    is_finite = np.isfinite(values)
    counts = _moving_sum(is_finite.astype(np.float64), width)
    return _moving_sum(np.where(is_finite, values, 0.0), width) / np.where(counts, counts, np.nan)


def _moving_sum(values: Values, width: int) -> Values:
    """Return the sum of the last `width` numbers at each place.

    Sums are made within blocks of that width: a difference of sums from the start on would lose all that comes behind
    one large number.
    """
    if not len(values):
        return values
    width = min(width, len(values))
    padded = np.concatenate([np.zeros(width - 1), values, np.zeros(-(len(values) + width - 1) % width)])
    blocks = padded.reshape(-1, width)
    ahead, behind = np.cumsum(blocks, axis=1).ravel(), np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    first = np.arange(len(values))
    sums: Values = ahead[first + width - 1] + np.where(first % width, behind[first], 0.0)
    return sums


def _reads_of(node: Node) -> Iterator[Read]:
    if isinstance(node, Read):
        yield node
    elif isinstance(node, _Call):
        yield from _reads_of(node.argument)
    elif isinstance(node, _Pair):
        yield from _reads_of(node.left)
        yield from _reads_of(node.right)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    """Reads a text from left to right, by the grammar above."""

    def __init__(self, text: str, statistics: frozenset[str]) -> None:
        self._text, self._statistics, self._depth = text, statistics, 0
        self._tokens: list[_Token] = []
        if len(text) > MOST_LETTERS:
            raise self.problem(MOST_LETTERS, f"It has {len(text):,} characters; at most {MOST_LETTERS} are read.")
        at = 0
        while rest := text[at:].lstrip():
            begin = len(text) - len(rest)
            found = _TOKEN.match(text, begin)
            if found is None:
                what = (
                    "A quote has no end."
                    if rest[0] in "\"'"
                    else f"{rest[0]!r} has no meaning here. Names of tensors stand in quotes."
                )
                raise self.problem(begin, what)
            sign = found[found.lastgroup or ""]
            self._tokens.append(_Token(found.lastgroup or "", "^" if sign == "**" else sign, begin))
            at = found.end()
        self._tokens.append(_Token("end", "", len(text.rstrip())))
        self._place = 0

    def problem(self, at: int, what: str, fix: str = WORKS) -> ConfigurationError:
        """Return the error about the character at a place."""
        return ConfigurationError([Problem(f"character {at + 1}", what, fix)], subject="The expression")

    def whole(self) -> Node:
        """Return the whole text."""
        node = self._sum()
        if self._next.kind != "end":
            raise self.problem(self._next.at, f"It ends before {self._next.text!r}: a sign such as + or / is missing.")
        return node

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _takes(self, signs: str) -> str:
        """Return the next sign, and go on behind it, if it is one of these; else ""."""
        return self._take().text if self._next.kind == "sign" and self._next.text in signs else ""

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self.problem(self._next.at, f"More than {MOST_DEPTH} brackets or signs stand within one another.")
        node = self._product()
        while sign := self._takes("+-"):
            node = _Pair(sign, node, self._product())
        self._depth -= 1
        return node

    def _product(self) -> Node:
        node = self._signed()
        while sign := self._takes("*/"):
            node = _Pair(sign, node, self._signed())
        return node

    def _signed(self) -> Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self.problem(self._next.at, f"More than {MOST_DEPTH} brackets or signs stand within one another.")
        if self._takes("-"):
            node: Node = _Pair("-", _Number(0.0), self._signed())
        else:
            node = self._atom()
            if self._takes("^"):
                node = _Pair("^", node, self._signed())
        self._depth -= 1
        return node

    def _atom(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return _Number(float(token.text))
        if token.kind == "tensor":
            return Read("", token.text[1:-1])
        if token.kind == "name":
            return self._named(token)
        if token.text == "(":
            node = self._sum()
            self._close("(", token.at)
            return node
        found = f"{token.text!r} stands there" if token.text else "the text ends"
        raise self.problem(token.at, f"A number, a statistic or a tensor is needed, and {found}.")

    def _named(self, token: _Token) -> Node:
        if token.text in self._statistics:
            if not self._takes("("):
                return Read(token.text, "")
            tensor = self._take()
            if tensor.kind != "tensor":
                raise self.problem(tensor.at, f'{token.text}(…) needs a tensor in quotes: {token.text}("…").')
            self._close(f"{token.text}(", token.at)
            return Read(token.text, tensor.text[1:-1])
        if token.text not in FUNCTIONS:
            near = did_you_mean(token.text, {*self._statistics, *FUNCTIONS})
            what = f"{token.text!r} is no statistic of this run and no function. Names of tensors stand in quotes."
            raise self.problem(token.at, what, near)
        if not self._takes("("):
            raise self.problem(self._next.at, f"{token.text} needs brackets: {token.text}(l2).")
        argument = self._sum()
        width = self._width(token) if token.text == _MOVING else 0
        self._close(f"{token.text}(", token.at)
        return _Call(token.text, argument, width)

    def _width(self, function: _Token) -> int:
        if self._takes(","):
            token = self._take()
            if token.kind == "number" and token.text.isdigit() and int(token.text[:9]) > 0:
                return int(token.text[:9])
            raise self.problem(token.at, "The number of steps must be 1 or more.", f"{function.text}(l2, 20)")
        raise self.problem(self._next.at, "The number of steps is missing.", f"{function.text}(l2, 20)")

    def _close(self, opened: str, at: int) -> None:
        if not self._takes(")"):
            raise self.problem(self._next.at, f"')' is missing, for {opened!r} at character {at + 1}.")
