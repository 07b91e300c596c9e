"""labels-cover-answers: the labels of a causal language model's batches cover answers and their ends, not padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from trackside.contracts.run.check import Answer
from trackside.contracts.run.recorded_names import (
    DOUBLE_BEGINS,
    LABELLED_ENDS,
    LABELLED_PADDING,
    LABELLED_PROMPTS,
    LABELLED_TOKENS,
    UNLABELLED_ROWS,
)
from trackside.frameworks.pytorch.data.token_batches import Rows
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.subject import Subject

_MOST = 0.5
_NEARLY_ALL = 0.9
_FEWEST_ROWS = 4  # with an end in none of them

Numbers = Mapping[str, float]


class SupervisedLabels(Probe):
    """Look at the tokens and labels that the model was called with in the newest step."""

    name = "labels-cover-answers"
    place = 12
    what = "The labels of the batch are of the wrong tokens."
    cures = (
        "Print the tokens of one row beside its labels: prompt and padding -100, the answer and its end not.",
        "Look at the limit of length (max_length), which cuts off answers first.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault for labels on padding, on no end, or on no token of most rows."""
        batches = list(_batches(subject))
        if not batches:
            raise DoesNotApplyError("no model is called with input_ids and labels of the same shape")
        rows = sum(len(each.tokens) for each in batches)
        found = _mean([dict(each.numbers()) for each in batches])
        observed = f"{rows} rows: {found[LABELLED_TOKENS]:.0%} of their tokens have a label"
        if LABELLED_PROMPTS in found:
            observed += f", and the first token of {found[LABELLED_PROMPTS]:.0%} of them"
        are_texts = any(each.are_texts for each in batches)
        what = _fault(found, are_texts=are_texts and rows >= _FEWEST_ROWS)
        return self.fault(observed, what=what) if what else self.ok(observed)


def _fault(found: Numbers, *, are_texts: bool) -> str:
    if found[LABELLED_TOKENS] == 0:
        return "No token of the batch has a label: the loss is a mean over nothing."
    if found.get(LABELLED_PADDING, 0.0) > _MOST:
        return "The padding has labels: the model is trained to write padding."
    if found[UNLABELLED_ROWS] > _MOST:
        return f"{found[UNLABELLED_ROWS]:.0%} of the rows have no label: they teach nothing."
    if found.get(DOUBLE_BEGINS, 0.0) > _NEARLY_ALL:
        return "The rows begin with two begin tokens, as where a template and the tokenizer add one each."
    if are_texts and found.get(LABELLED_ENDS, 1.0) == 0:
        return "No row has a label on an end token: the model never learns to end."
    return ""


def _batches(subject: Subject) -> Iterator[Rows]:
    for program in [program for _, losses in subject.steps for program in losses]:
        for call in program.calls:
            given: Mapping[str, Any] = call.arguments[1]
            tokens, labels = given.get("input_ids"), given.get("labels")
            if not call.is_model or not _are_alike(tokens, labels):
                continue
            cpu = {name: value.cpu() for name, value in given.items() if isinstance(value, torch.Tensor)}
            config = getattr(call.module, "config", None)
            if (rows := Rows.of(cpu, cpu["input_ids"], cpu["labels"], config)) is not None:
                yield rows


def _are_alike(tokens: Any, labels: Any) -> bool:
    are_tensors = isinstance(tokens, torch.Tensor) and isinstance(labels, torch.Tensor)
    return are_tensors and tokens.ndim == 2 and tokens.shape == labels.shape and not labels.is_floating_point()


def _mean(batches: list[dict[str, float]]) -> dict[str, float]:
    names = {name for each in batches for name in each}
    return {name: sum(own := [each[name] for each in batches if name in each]) / len(own) for name in names}
