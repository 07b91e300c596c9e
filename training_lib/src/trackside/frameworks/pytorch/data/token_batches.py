"""The tokens and labels of a batch for a causal language model, as transformers' collators make it.

Looks at the batch as the DataLoader gives it, on the processor, at the first batches and rarely after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from trackside.contracts.run.recorded_names import (
    DOUBLE_BEGINS,
    LABELLED_ENDS,
    LABELLED_PADDING,
    LABELLED_TOKENS,
    UNTRAINED_TOKENS,
)
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import parameters_of

LOOKS_AT_FIRST, LOOK_INTERVAL = 32, 128  # batches
MOST_TOKENS = 1 << 16  # of a batch that are looked at
KEPT_BATCHES = 4  # newest ones: loaders fetch ahead of the step that trains on a batch
MOST_ADDED = 64  # highest tokens of a batch whose embeddings are looked at
_SAMPLE = 512  # embeddings whose mean stands for that of all
_NEAR = 0.15  # of the usual distance from the mean: an embedding that was set to it
_NO_LABEL = -100
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
        if tokens is None:
            return
        self._newest.append(tokens)
        labels = batch.get("labels") if isinstance(batch, Mapping) else None
        if labels is None:
            return
        self._count += 1
        if self._count > LOOKS_AT_FIRST and self._count % LOOK_INTERVAL:
            return
        model = self._model()
        if model is None or not _are_labels(labels, tokens):
            return
        with torch.no_grad():
            mask = batch.get("attention_mask")
            mask = (
                mask if isinstance(mask, torch.Tensor) and has_memory(mask) and mask.device == tokens.device else None
            )
            for name, value in _numbers(tokens, labels, mask, getattr(model, "config", None)):
                added[name, "mean"] = value
            if (untrained := _untrained(model, tokens)) is not None:
                added[UNTRAINED_TOKENS, "mean"] = untrained

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


def _numbers(tokens: torch.Tensor, labels: torch.Tensor, mask: Any, config: Any) -> Iterator[tuple[str, float]]:
    ends, begins, fills = (_ids(config, name) for name in ("eos_token_id", "bos_token_id", "pad_token_id"))
    labelled = labels != _NO_LABEL
    if isinstance(mask, torch.Tensor) and mask.shape == tokens.shape:
        read = mask != 0
    elif fills and not set(fills) & set(ends):
        read = ~_is_any(tokens, fills)
    else:
        read = torch.ones_like(labelled)
    count = int(read.sum())
    if not count:
        return
    yield LABELLED_TOKENS, int((labelled & read).sum()) / count
    if count < tokens.numel():
        yield LABELLED_PADDING, float(labelled[~read].float().mean())
    if ends:
        # by the labels: where a loop shifts them, the one of the end stands a place before it
        yield LABELLED_ENDS, float((_is_any(labels, ends) & read & labelled).any(1).float().mean())
    if begins and tokens.shape[1] > 1:
        first = read.long().argmax(1).clamp(max=tokens.shape[1] - 2)[:, None]
        twice = _is_any(tokens.gather(1, first), begins) & _is_any(tokens.gather(1, first + 1), begins)
        yield DOUBLE_BEGINS, float(twice.float().mean())


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
