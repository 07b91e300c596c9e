"""The tokens and labels of a batch for a causal language model, as transformers' collators make it.

Looks at the batch as the DataLoader gives it, on the processor, at the first batches and rarely after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trackside.contracts.run.recorded_names import (
    DOUBLE_BEGINS,
    LABELLED_ENDS,
    LABELLED_PADDING,
    LABELLED_PROMPTS,
    LABELLED_TOKENS,
    ROWS_CUT,
    UNLABELLED_ROWS,
    UNTRAINED_TOKENS,
)
from trackside.frameworks.pytorch.data.preference_pairs import pairs_in
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import parameters_of

LOOKS_AT_FIRST, LOOK_INTERVAL = 32, 128  # batches
MOST_TOKENS = 1 << 16  # of a batch that are looked at
KEPT_BATCHES = 4  # newest ones: loaders fetch ahead of the step that trains on a batch
MOST_ADDED = 64  # highest tokens of a batch whose embeddings are looked at
_SAMPLE = 512  # embeddings whose mean stands for that of all
_NEAR = 0.15  # of the usual distance from the mean: an embedding that was set to it
_NO_LABEL = -100
_ENDING = 3  # last tokens of a row, among which its end stands: a template may write a line feed after it
_CAUSAL = ("ForCausalLM", "LMHeadModel")  # ends of names of transformers' classes


class TokenBatches:
    """Numbers about the batches of one training.

    Args:
        roots: Returns the trained models, with their names.
    """

    def __init__(self, roots: Callable[[], Iterable[tuple[str, torch.nn.Module]]]) -> None:
        self._roots = roots
        self._count = 0
        self._newest: deque[torch.Tensor] = deque(maxlen=KEPT_BATCHES)
        self._longest = 0  # tokens of the longest row so far
        self._are_texts = (
            False  # rows are texts of their own: some are shorter than others, or have tokens without label
        )

    def newest(self) -> Sequence[torch.Tensor]:
        """Return the tokens of the newest batches, for a loss of one of them; nothing for other models."""
        return tuple(self._newest) if self._newest and self._model() is not None else ()

    def look(self, batch: Any, added: dict[tuple[str, str], Any]) -> None:
        """Add the numbers of a batch, if it has tokens and labels and a look is due.

        Args:
            batch: The batch of a DataLoader.
            added: The numbers of the open step, by name and statistic.
        """
        tokens = _tokens(batch)
        if tokens is not None:
            self._newest.append(tokens)
        if not isinstance(batch, Mapping):
            return
        self._count += 1
        if self._count > LOOKS_AT_FIRST and self._count % LOOK_INTERVAL:
            return
        model = self._model()
        if model is None:
            return
        with torch.no_grad():
            for name, value in self._numbers(batch, tokens, model):
                added[name, "mean"] = value

    def _numbers(
        self, batch: Mapping[str, Any], tokens: torch.Tensor | None, model: torch.nn.Module
    ) -> Iterator[tuple[str, float]]:
        labels: Any = batch.get("labels")
        if tokens is None or not _are_labels(labels, tokens):
            yield from pairs_in(batch)
            return
        row = Rows.of(batch, tokens, labels, getattr(model, "config", None))
        if row is not None:
            yield from row.numbers()
            yield from self._cut(row)
            if (untrained := _untrained(model, tokens)) is not None:
                yield UNTRAINED_TOKENS, untrained

    def _cut(self, rows: Rows) -> Iterator[tuple[str, float]]:
        """Yield the share of the rows that are cut off, where rows are texts that end by a token."""
        lengths = rows.read.sum(1)
        self._longest = max(self._longest, int(lengths.max()))
        self._are_texts = self._are_texts or rows.are_texts
        if self._are_texts and rows.ends:
            yield ROWS_CUT, float((~rows.has_end() & (lengths == self._longest)).float().mean())

    def _model(self) -> torch.nn.Module | None:
        return next((root for _, root in self._roots() if type(root).__name__.endswith(_CAUSAL)), None)


def _tokens(batch: Any) -> torch.Tensor | None:
    """Return the tokens of a batch: its `input_ids`, or the first of its tensors, if they are rows of whole numbers."""
    found: Any = None
    if isinstance(batch, Mapping):
        found = batch.get("input_ids")
    elif isinstance(batch, (tuple, list)) and batch:
        found = batch[0]
    elif isinstance(batch, torch.Tensor):
        found = batch
    is_of_rows = isinstance(found, torch.Tensor) and found.ndim == 2 and 0 < found.numel() <= MOST_TOKENS
    return found if is_of_rows and _is_readable(found) else None


def _are_labels(labels: Any, tokens: torch.Tensor) -> bool:
    return isinstance(labels, torch.Tensor) and labels.shape == tokens.shape and _is_readable(labels)


def _is_readable(found: torch.Tensor) -> bool:
    return found.device.type == "cpu" and not found.is_floating_point() and has_memory(found)


@dataclass(frozen=True)
class Rows:
    """The rows of a batch with labels.

    Attributes:
        tokens, labels: Of each place.
        read: True at places that are no padding.
        ends, begins: The numbers of these tokens; () if unknown.
    """

    tokens: torch.Tensor
    labels: torch.Tensor
    read: torch.Tensor
    ends: tuple[int, ...]
    begins: tuple[int, ...]

    @classmethod
    def of(cls, batch: Mapping[str, Any], tokens: torch.Tensor, labels: torch.Tensor, config: Any) -> Rows | None:
        """Return the rows of a batch; None if all is padding."""
        ends, begins, fills = (_ids(config, name) for name in ("eos_token_id", "bos_token_id", "pad_token_id"))
        mask = batch.get("attention_mask")
        if isinstance(mask, torch.Tensor) and mask.shape == tokens.shape and _is_near(mask, tokens):
            read = mask != 0
        elif fills and not set(fills) & set(ends):
            read = ~_is_any(tokens, fills)
        else:
            read = torch.ones_like(tokens, dtype=torch.bool)
        return cls(tokens, labels, read, ends, begins) if bool(read.any()) else None

    @property
    def labelled(self) -> torch.Tensor:
        """True at places with a label."""
        return self.labels != _NO_LABEL

    @property
    def are_texts(self) -> bool:
        """True if they are texts of their own: some are shorter than others, or have tokens without a label."""
        return not bool(self.read.all()) or not bool(self.labelled.all())

    def has_end(self) -> torch.Tensor:
        """Return for each row whether an end stands among its last tokens."""
        places = self.read.long().cumsum(1)
        is_last = self.read & (places > places[:, -1:] - _ENDING)
        return (_is_any(self.tokens, self.ends) & is_last).any(1)

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield name and value of what a batch shows alone."""
        count, labelled = int(self.read.sum()), self.labelled
        yield LABELLED_TOKENS, int((labelled & self.read).sum()) / count
        if count < self.tokens.numel():
            yield LABELLED_PADDING, float(labelled[~self.read].float().mean())
        if self.ends:
            # by the labels: where a loop shifts them, the one of the end stands a place before it
            ends = _is_any(self.labels, self.ends) & self.read & labelled
            yield LABELLED_ENDS, float(ends.any(1).float().mean())
        yield UNLABELLED_ROWS, float((~(labelled & self.read).any(1)).float().mean())
        yield from self._firsts(labelled)

    def _firsts(self, labelled: torch.Tensor) -> Iterator[tuple[str, float]]:
        if self.tokens.shape[1] < 2:
            return
        first = self.read.long().argmax(1).clamp(max=self.tokens.shape[1] - 2)[:, None]
        two = self.tokens.gather(1, first), self.tokens.gather(1, first + 1)
        if self.begins:
            one, other = (_is_any(each, self.begins) for each in two)
            yield DOUBLE_BEGINS, float((one & other).float().mean())
            first = first + one.long()
        yield LABELLED_PROMPTS, float(labelled.gather(1, first).float().mean())


def _is_near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return has_memory(one) and one.device == other.device


def _ids(config: Any, name: str) -> tuple[int, ...]:
    """Return the numbers of a special token in the configuration of a model; () if it names none."""
    found = getattr(config, name, None)
    values = found if isinstance(found, (list, tuple)) else [found]
    return tuple(value for value in values if isinstance(value, int) and not isinstance(value, bool))


def _is_any(tokens: torch.Tensor, ids: tuple[int, ...]) -> torch.Tensor:
    found = tokens == ids[0]
    for each in ids[1:]:
        found = found | (tokens == each)
    return found


def _untrained(model: torch.nn.Module, tokens: torch.Tensor) -> float | None:
    """Return the number of tokens with a frozen embedding that is the mean of all; None if embeddings are trained."""
    inputs_of = getattr(model, "get_input_embeddings", None)
    embedding: Any = inputs_of() if callable(inputs_of) else None
    if not isinstance(embedding, torch.nn.Module) or any(each.requires_grad for each in parameters_of(embedding)):
        return None
    weight = getattr(embedding, "weight", None)
    if (
        not isinstance(weight, torch.Tensor)
        or weight.ndim != 2
        or weight.device.type != "cpu"
        or not has_memory(weight)
    ):
        return None
    rows = weight[:: max(1, len(weight) // _SAMPLE)].float()
    center = rows.mean(0)
    usual = float((rows - center).norm(dim=1).median())
    used = torch.unique(tokens)[-MOST_ADDED:]
    used = used[(used >= 0) & (used < len(weight))]
    near = (weight[used].float() - center).norm(dim=1) < _NEAR * usual
    return float(near.sum())
